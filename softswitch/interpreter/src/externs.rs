// SPDX-License-Identifier: Apache-2.0
//! What the operations of the architecture do: [`Extern`] says what each is for.

use narrows_program::externs::Extern;
use narrows_program::Program;

use crate::machine::Machine;
use crate::packet::Packet;

impl Machine {
    /// Runs an operation on `object` with the value of the slot that it reads. Returns what it writes: `old` leaves that as it is.
    pub fn call(
        &mut self,
        program: &Program,
        packet: &Packet,
        call: Extern,
        object: u16,
        (value, old): (u64, u64),
    ) -> u64 {
        let place = usize::from(object);
        match call {
            Extern::Meter => {
                let color = self.meters.execute(place, value, self.now_ns, packet.ingress_length);
                color.unwrap_or(old)
            }
            Extern::DirectMeter => {
                let (code, table) = (&program.tables[place], &mut self.tables[place]);
                table.meter_hit(code, packet.ingress_length, self.now_ns).unwrap_or(old)
            }
            Extern::ValueSet => u64::from(self.value_sets[place].contains(&value)),
            Extern::Select => self.profiles[place].choose(old as u32, value).into(),
            Extern::Assertion => {
                self.failed.get_or_insert(object);
                old
            }
            Extern::SendAgain => {
                self.outcome.again = Some(object);
                old
            }
        }
    }
}
