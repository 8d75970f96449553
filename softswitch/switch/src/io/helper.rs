//! A second thread that sends what the data path has written but has no time to send: copies for telemetry, mostly.
// SPDX-License-Identifier: Apache-2.0
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::xdp::{Outlet, Sent};

/// System calls for one interface before the next one has its turn.
const CALLS: u32 = 4;

/// The thread, or none; it ends when this is dropped.
#[derive(Debug, Default)]
pub struct Helper {
    outlets: Option<Sender<Arc<Outlet>>>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let (outlets, receiver) = mpsc::channel();
        let thread = thread::Builder::new().name("telemetry-tx".into()).spawn(move || run(&receiver))?;
        Ok(Helper { outlets: Some(outlets), thread: Some(thread) })
    }

    /// Has the thread send what `outlet` holds, unless it is doing so already. False: there is no thread.
    pub fn delegate(&self, outlet: &Arc<Outlet>) -> bool {
        if outlet.delegated.swap(true, Ordering::AcqRel) {
            return true;
        }
        self.outlets.as_ref().is_some_and(|outlets| outlets.send(Arc::clone(outlet)).is_ok())
    }
}

fn run(outlets: &Receiver<Arc<Outlet>>) {
    let mut turns: VecDeque<Arc<Outlet>> = VecDeque::new();
    loop {
        if turns.is_empty() {
            match outlets.recv() {
                Ok(outlet) => turns.push_back(outlet),
                Err(_) => return,
            }
        }
        turns.extend(outlets.try_iter());
        if let Some(outlet) = turns.pop_front() {
            match outlet.send(CALLS) {
                Sent::Part => turns.push_back(outlet),
                Sent::All | Sent::Blocked | Sent::Failed => outlet.delegated.store(false, Ordering::Release),
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.outlets = None;
        if let Some(thread) = self.thread.take() {
            // It returns nothing.
            let _ = thread.join();
        }
    }
}
