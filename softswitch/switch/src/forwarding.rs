//! What a pipeline configuration gives the data path: the program with its state, and its clone sessions.
// SPDX-License-Identifier: Apache-2.0
use narrows_pipeline::Pipeline;

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
#[derive(Debug, Default)]
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

/// A program, its tables and registers, and its clone sessions: replaced as a whole by a new pipeline configuration.
#[derive(Debug)]
pub struct Forwarding {
    /// The program and its state.
    pub pipeline: Pipeline,
    /// Where its clones go.
    pub sessions: Sessions,
}

impl Forwarding {
    /// A program without clone sessions.
    pub fn new(pipeline: Pipeline) -> Self {
        Forwarding { pipeline, sessions: Sessions::default() }
    }
}
