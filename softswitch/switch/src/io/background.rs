//! Work that takes the kernel long, such as opening a receive ring, beside the packets.
// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

type Job = Box<dyn FnOnce() + Send>;

/// A thread for such work; without one it is done at once, which costs nothing in virtual time, where the clock does
/// not move. What is under way is finished before this is dropped.
#[derive(Debug, Default)]
pub struct Background {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel::<Job>();
        let thread = thread::Builder::new().name("maintenance".into());
        let thread = thread.spawn(move || receiver.iter().for_each(|job| job()))?;
        Ok(Background { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Does the work, later or now.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        match &self.jobs {
            // The thread ends only by a panic; then the work is not done.
            Some(jobs) => drop(jobs.send(Box::new(job))),
            None => job(),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It returns nothing.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_does_not_wait() {
        let background = Background::start().expect("thread");
        let (finish, waits) = mpsc::channel::<()>();
        let (give, take) = mpsc::channel();
        background.run(move || {
            let _ = waits.recv();
            let _ = give.send(thread::current().id());
        });
        assert!(take.try_recv().is_err(), "it is not done yet");
        drop(finish);
        assert_ne!(take.recv().expect("done"), thread::current().id());
    }

    #[test]
    fn without_a_thread_it_is_done_at_once() {
        let (give, take) = mpsc::channel();
        Background::default().run(move || give.send(()).expect("the other thread waits"));
        assert_eq!(take.try_recv(), Ok(()));
    }
}
