//! Gives up what a program no longer needs once its sockets are open: capabilities (capabilities(7)) and files
//! (landlock(7)).
// SPDX-License-Identifier: Apache-2.0
use std::fmt;
use std::path::Path;

pub use caps::Capability;
use caps::{CapSet, CapsHashSet};
use landlock::{
    path_beneath_rules, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    ABI,
};

/// The version of Landlock that this was written for; with an older kernel as much is given up as it supports.
const KERNEL: ABI = ABI::V5;

/// What is still allowed below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below<'d> {
    /// Nothing at all.
    Nothing,
    /// Files can be removed from this directory.
    Remove(&'d Path),
    /// Files can be created, read, renamed and removed below this directory, but not executed.
    Write(&'d Path),
}

/// The kernel refused a restriction.
#[derive(Debug)]
pub struct Kept(String);

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "privileges cannot be given up: {}", self.0)
    }
}

impl std::error::Error for Kept {}

/// Root becomes this user with only this group; other users are left unchanged.
///
/// # Errors
/// If the kernel refuses.
pub fn become_user(user: u32, group: u32) -> Result<(), Kept> {
    // SAFETY: plain system calls that pass no memory: the list of groups is empty.
    let become_it = || unsafe {
        libc::geteuid() != 0
            || user == 0
            || (libc::setgroups(0, std::ptr::null()) == 0
                && libc::setresgid(group, group, group) == 0
                && libc::setresuid(user, user, user) == 0)
    };
    match become_it() {
        true => Ok(()),
        false => Err(Kept(std::io::Error::last_os_error().to_string())),
    }
}

/// Keeps only the capabilities `keep`, and access only to the files `below`. Nothing can be regained, not even by executing a
/// program. This holds for this thread and those it starts from now on, so call it before there are others. Open files stay open.
///
/// Returns whether the kernel restricts access to files: one without Landlock does not.
///
/// # Errors
/// If the kernel refuses.
pub fn give_up(keep: &[Capability], below: Below<'_>) -> Result<bool, Kept> {
    let guarded = leave_files(below).map_err(|error| Kept(error.to_string()))?;
    leave_capabilities(keep).map_err(|error| Kept(error.to_string()))?;
    Ok(guarded)
}

fn leave_files(below: Below<'_>) -> Result<bool, landlock::RulesetError> {
    let all = AccessFs::from_all(KERNEL);
    // No program can be executed, and only files can be created.
    let special =
        AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::MakeFifo;
    let (directory, access): (Option<&Path>, BitFlags<AccessFs>) = match below {
        Below::Nothing => (None, BitFlags::EMPTY),
        Below::Remove(directory) => (Some(directory), AccessFs::RemoveFile.into()),
        Below::Write(directory) => (Some(directory), all & !special),
    };
    let ruleset = Ruleset::default().handle_access(all)?.handle_access(AccessNet::from_all(KERNEL))?.create()?;
    // Also sets no_new_privs, with or without Landlock: executing a program gives no privileges.
    let status = ruleset.add_rules(path_beneath_rules(directory, access))?.restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

fn leave_capabilities(keep: &[Capability]) -> Result<(), caps::errors::CapsError> {
    let held = caps::read(None, CapSet::Permitted)?;
    let kept: CapsHashSet = keep.iter().copied().filter(|capability| held.contains(capability)).collect();
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    /// In a separate thread, since nothing that is given up can be regained.
    fn after<R: Send + 'static>(directory: &Path, below: fn(&Path) -> Below<'_>, check: fn(&Path, bool) -> R) -> R {
        let directory = directory.to_owned();
        let run = move || {
            let guarded = give_up(&[Capability::CAP_NET_RAW], below(&directory)).expect("privileges are given up");
            check(&directory, guarded)
        };
        thread::spawn(run).join().expect("no panic")
    }

    #[test]
    fn only_the_named_capabilities_are_kept() {
        let directory = tempfile::tempdir().expect("directory");
        let before = caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_RAW).expect("capabilities");
        after(directory.path(), |_| Below::Nothing, |_, _| ());
        let left = after(directory.path(), |_| Below::Nothing, |_, _| caps::read(None, CapSet::Permitted));
        let left = left.expect("capabilities");
        assert_eq!(left.len(), usize::from(before));
        assert_eq!(left.contains(&Capability::CAP_NET_RAW), before);
    }

    #[test]
    fn files_are_written_below_the_directory_only() {
        let (directory, other) = (tempfile::tempdir().expect("directory"), tempfile::tempdir().expect("directory"));
        fs::write(other.path().join("secret"), "of others").expect("written");
        let inside = directory.path().join("inside");
        fs::create_dir(&inside).expect("made");
        std::os::unix::fs::symlink(other.path(), inside.join("link")).expect("made");
        after(
            &inside,
            |path| Below::Write(path),
            |inside, guarded| {
                fs::write(inside.join("partial"), "rows").expect("within the directory");
                fs::rename(inside.join("partial"), inside.join("whole")).expect("within the directory");
                assert_eq!(fs::read(inside.join("whole")).expect("within the directory"), b"rows");
                let allowed =
                    |path: &Path| fs::read(path.join("secret")).is_ok() || fs::write(path.join("new"), "").is_ok();
                assert_eq!(allowed(&inside.join("link")), !guarded);
                assert_eq!(fs::write(inside.with_file_name("beside"), "").is_ok(), !guarded);
            },
        );
    }

    #[test]
    fn a_socket_can_be_removed_and_nothing_else_be_done() {
        let directory = tempfile::tempdir().expect("directory");
        fs::write(directory.path().join("socket"), "").expect("written");
        after(
            directory.path(),
            |path| Below::Remove(path),
            |directory, guarded| {
                assert_eq!(fs::read(directory.join("socket")).is_ok(), !guarded);
                assert_eq!(fs::write(directory.join("new"), "").is_ok(), !guarded);
                fs::remove_file(directory.join("socket")).expect("may be removed");
            },
        );
    }
}
