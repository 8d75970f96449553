//! How much of a frame a replay holds.
// SPDX-License-Identifier: Apache-2.0
use narrows_pipeline::Program;
use narrows_replay_config::config::Config;

/// How much of a frame is looked at: what is behind that need not be there.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// Bytes that the program may parse.
    pub parsed: usize,
    /// Bytes that some output may show.
    pub shown: usize,
}

impl View {
    pub fn new(config: &Config, program: &Program) -> Self {
        let snaps = config.outputs.iter().map(|output| output.snap_bytes);
        let snap = snaps.map(|snap| if snap == 0 { usize::MAX } else { snap }).max().unwrap_or(0);
        // On a loopback port all of a frame comes in again.
        let parsed = program.parsed_bytes().filter(|_| config.loopbacks.is_empty()).unwrap_or(usize::MAX);
        // The program may take off all the headers that it parses, which brings forward what follows them.
        View { parsed, shown: snap.saturating_add(parsed) }
    }

    /// Bytes to be held of a frame that consists of zeros behind the first `known` ones.
    #[inline]
    pub fn held(self, known: usize) -> usize {
        self.shown.min(known.max(self.parsed))
    }
}
