//! What a pipeline configuration gives the data path, all of it: COMMIT replaces one value.
// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeMap;

use narrows_pipeline::{ControlError, PacketPool, Pipeline, RegisterPlace};

use crate::tm::QueueState;

/// Clone sessions are 15 bits wide in v1model.
pub const MAX_SESSION: u16 = 0x7fff;

/// Where the copies of a clone session go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CloneSession {
    /// Egress port and replica id of each copy.
    pub replicas: Vec<(u16, u16)>,
    /// Queue of the copies, 0..7.
    pub priority: u8,
    /// Bytes of the packet that a copy holds at most; 0 = all.
    pub length_limit: u32,
    /// The controller named the ports by the number that P4Runtime 1.4 replaced: it gets them back in that form.
    pub numeric_ports: bool,
}

impl CloneSession {
    /// Bytes of the packet that a copy holds at most.
    #[inline]
    pub fn limit(&self) -> usize {
        match self.length_limit {
            0 => usize::MAX,
            limit => limit as usize,
        }
    }
}

/// The clone sessions of a program.
#[derive(Debug, Clone, Default)]
pub struct Sessions(Vec<Option<CloneSession>>);

impl Sessions {
    /// The session with this number, if it was set.
    #[inline]
    pub fn get(&self, number: u16) -> Option<&CloneSession> {
        self.0.get(usize::from(number)).and_then(Option::as_ref)
    }

    /// Every session that was set, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &CloneSession)> {
        let numbered = self.0.iter().enumerate();
        numbered.filter_map(|(number, session)| session.as_ref().map(|session| (number as u16, session)))
    }

    /// Sets or removes a session.
    pub fn set(&mut self, number: u16, session: Option<CloneSession>) {
        let number = usize::from(number & MAX_SESSION);
        if self.0.len() <= number {
            self.0.resize(number + 1, None);
        }
        self.0[number] = session;
    }
}

/// Members of a multicast group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// Egress port and replica id of each replica.
    pub replicas: Vec<(u16, u16)>,
    /// As [`CloneSession::numeric_ports`].
    pub numeric_ports: bool,
}

/// The multicast groups of a program, by their numbers.
#[derive(Debug, Clone, Default)]
pub struct Groups(BTreeMap<u16, Group>);

impl Groups {
    /// The group with this number, if it was set.
    pub fn get(&self, number: u16) -> Option<&Group> {
        self.0.get(&number)
    }

    /// Every group that was set, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Group)> {
        self.0.iter().map(|(number, group)| (*number, group))
    }

    /// Sets or removes a group.
    pub fn set(&mut self, number: u16, group: Option<Group>) {
        match group {
            Some(group) => self.0.insert(number, group),
            None => self.0.remove(&number),
        };
    }
}

/// A program and everything that belongs to it: replaced as a whole by a new pipeline configuration.
#[derive(Debug)]
pub struct ProgramUnit {
    /// The program and its code, its tables, cells and digests.
    pub pipeline: Pipeline,
    /// Its packets.
    pub(crate) pool: PacketPool,
    /// Bytes of a frame that it may parse.
    pub(crate) parsed: usize,
    /// Where its clones go.
    pub sessions: Sessions,
    /// Where packets go that are sent to a multicast group.
    pub groups: Groups,
    /// Registers of the program that hold the state of a managed queue, in the order of [`STATE_REGISTERS`].
    state: [Option<RegisterPlace>; STATE_REGISTERS.len()],
    /// By bottleneck, what they hold, in the order of [`Forwarding::tell`].
    written: Vec<[u64; 5]>,
}

/// Names of the registers that the traffic manager writes: bytes and packets that wait, when the link has sent what has started,
/// and when the heads of two queues arrived, which have two cells for each bottleneck.
const STATE_REGISTERS: [&str; 4] = ["tm_depth_bytes", "tm_depth_packets", "tm_link_free_ns", "tm_head_ns"];

impl ProgramUnit {
    /// A program without clone sessions.
    pub fn new(pipeline: Pipeline) -> Self {
        let state = STATE_REGISTERS.map(|name| pipeline.register_place(name));
        let longest = state.iter().flatten().map(RegisterPlace::cells).max();
        let written = vec![[0; 5]; longest.unwrap_or(0) as usize];
        let program = pipeline.program();
        let (pool, parsed) = (PacketPool::new(program), program.parsed_bytes().unwrap_or(usize::MAX));
        ProgramUnit { state, written, pipeline, pool, parsed, sessions: Sessions::default(), groups: Groups::default() }
    }

    /// Takes over the state of another unit, whose program may be another version of this one's.
    ///
    /// # Errors
    /// What cannot be preserved; this unit is not to be used then.
    pub fn adopt(&mut self, old: &ProgramUnit) -> Result<(), ControlError> {
        self.pipeline.adopt(&old.pipeline)?;
        (self.sessions, self.groups) = (old.sessions.clone(), old.groups.clone());
        // What the traffic manager has told the other program it tells this one anew.
        for register in self.state.iter().flatten() {
            (0..register.cells()).for_each(|index| self.pipeline.put(register, index, 0));
        }
        Ok(())
    }

    /// Writes the state of a managed queue to the program's registers for it. What has not changed is not written
    /// again: they are the traffic manager's, and neither the program nor the control plane writes them.
    #[inline]
    pub fn tell(&mut self, state: &QueueState) {
        let [bytes, packets, free, heads] = &self.state;
        let Some(written) = self.written.get_mut(state.index as usize) else {
            return;
        };
        let index = u64::from(state.index);
        let mut put = |value: u64, written: &mut u64, register: &Option<RegisterPlace>, index| {
            if value != *written {
                *written = value;
                if let Some(register) = register {
                    self.pipeline.put(register, index, value);
                }
            }
        };
        put(state.depth_bytes, &mut written[0], bytes, index);
        put(state.depth_packets, &mut written[1], packets, index);
        put(state.link_free_ns, &mut written[2], free, index);
        put(state.heads_ns[0], &mut written[3], heads, 2 * index);
        put(state.heads_ns[1], &mut written[4], heads, 2 * index + 1);
    }

    /// The same where nothing waits: as a rule only the link's time has changed.
    #[inline(always)]
    pub fn tell_idle(&mut self, index: u32, link_free_ns: u64) {
        match self.written.get_mut(index as usize) {
            Some(written) if written[0] | written[1] | written[3] | written[4] == 0 => {
                written[2] = link_free_ns;
                if let Some(register) = &self.state[2] {
                    self.pipeline.put(register, u64::from(index), link_free_ns);
                }
            }
            Some(_) => {
                self.tell(&QueueState { index, depth_bytes: 0, depth_packets: 0, link_free_ns, heads_ns: [0; 2] })
            }
            None => {}
        }
    }
}
