// SPDX-License-Identifier: Apache-2.0
//! What the operations of the architecture do: [`Extern`] says what each is for.

use narrows_program::externs::Extern;

use crate::machine::Machine;
use crate::packet::Packet;

impl Machine {
    /// Runs an operation on `object` with the value of the slot that it reads. Returns what it writes: `old` leaves that as it is.
    pub fn call(&mut self, packet: &Packet, call: Extern, object: u16, value: u64, old: u64) -> u64 {
        match call {
            Extern::Meter => {
                let color = self.meters.execute(usize::from(object), value, self.now_ns, packet.ingress_length);
                color.unwrap_or(old)
            }
            Extern::SendAgain => {
                self.outcome.again = Some(object);
                old
            }
        }
    }
}
