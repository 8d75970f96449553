//! Queueing disciplines of interfaces, by rtnetlink: which there is, and Linux's fq, which sends frames at their launch times.
// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::os::fd::AsRawFd;

use narrows_packet_sockets::{check, owned};

// linux/rtnetlink.h and linux/pkt_sched.h
const RTM_NEWQDISC: u16 = 36;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TCA_FQ_PLIMIT: u16 = 1;
const TCA_FQ_FLOW_PLIMIT: u16 = 2;
const TCA_FQ_QUANTUM: u16 = 3;
const TCA_FQ_RATE_ENABLE: u16 = 5;
const TCA_FQ_TIMER_SLACK: u16 = 13;
const TCA_FQ_HORIZON: u16 = 14;
const TCA_FQ_HORIZON_DROP: u16 = 15;

/// What the kernel says about an interface is shorter.
const ANSWER_BYTES: usize = 1 << 15;

/// Frames that may wait in all, and of one flow: more than the switch's pool.
const LIMIT: u32 = 1 << 28;
/// Bytes that a flow may send in its turn: order is by time, so the more the better.
const QUANTUM: u32 = 1 << 20;
/// Launch times may be so far ahead, in microseconds: 4,000 s.
const HORIZON_US: u32 = 4_000_000_000;

/// fq as it is wanted: launch times only, no pacing of its own, timers at the nanosecond.
const OPTIONS: [(u16, u32); 6] = [
    (TCA_FQ_PLIMIT, LIMIT),
    (TCA_FQ_FLOW_PLIMIT, LIMIT),
    (TCA_FQ_QUANTUM, QUANTUM),
    (TCA_FQ_RATE_ENABLE, 0),
    (TCA_FQ_TIMER_SLACK, 0),
    (TCA_FQ_HORIZON, HORIZON_US),
];

/// Appends an attribute, padded to four bytes.
fn append(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend((value.len() as u16 + 4).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Of an rtnetlink message: its header, with the length left open, and the interface behind a structure's first word.
fn message(kind: u16, flags: libc::c_int, index: libc::c_int) -> Vec<u8> {
    let mut message = vec![0; 4];
    message.extend(kind.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    // Sequence number and sender, which are not compared; then family with padding.
    message.extend([0; 12]);
    message.extend(index.to_ne_bytes());
    message
}

/// Writes the length.
fn finished(mut message: Vec<u8>) -> Vec<u8> {
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message
}

/// The rtnetlink message that makes fq the root discipline of interface `index`.
fn fq_request(index: libc::c_int) -> Vec<u8> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let mut message = message(RTM_NEWQDISC, flags, index);
    // Of struct tcmsg yet: handle, parent, info.
    message.extend(0u32.to_ne_bytes());
    message.extend(TC_H_ROOT.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    append(&mut message, libc::TCA_KIND, b"fq\0");
    let mut options = Vec::new();
    for (kind, value) in OPTIONS {
        append(&mut options, kind, &value.to_ne_bytes());
    }
    append(&mut options, TCA_FQ_HORIZON_DROP, &[0]);
    append(&mut message, libc::TCA_OPTIONS, &options);
    finished(message)
}

/// The rtnetlink message that asks about interface `index`.
fn link_request(index: libc::c_int) -> Vec<u8> {
    let mut message = message(libc::RTM_GETLINK, libc::NLM_F_REQUEST, index);
    // Of struct ifinfomsg yet: flags and which of them change.
    message.extend([0; 8]);
    finished(message)
}

/// Sends a request; the kernel's answer.
fn ask(request: &[u8]) -> io::Result<Vec<u8>> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: passes no memory; what it opens is new.
    let socket = unsafe { owned(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE)) }?;
    // SAFETY: sends the bytes of `request`, which lives until the call returns. A netlink socket without an address talks to
    // the kernel.
    check(unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) })?;
    let mut answer = vec![0u8; ANSWER_BYTES];
    // SAFETY: receives at most as many bytes as `answer` has.
    let received = check(unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) })?;
    answer.truncate(received as usize);
    Ok(answer)
}

fn number<const N: usize>(message: &[u8], at: usize) -> Option<[u8; N]> {
    message.get(at..at + N)?.try_into().ok()
}

/// The error number in the answer to a request, 0 for success.
fn verdict(answer: &[u8]) -> Option<i32> {
    // struct nlmsghdr, of which only the type matters, then struct nlmsgerr.
    let kind = u16::from_ne_bytes(number(answer, 4)?);
    let error = i32::from_ne_bytes(number(answer, 16)?);
    (i32::from(kind) == libc::NLMSG_ERROR).then_some(-error)
}

/// The queueing discipline that the answer about an interface names.
fn discipline(answer: &[u8]) -> Option<&[u8]> {
    if u16::from_ne_bytes(number(answer, 4)?) != libc::RTM_NEWLINK {
        return None;
    }
    // Behind struct nlmsghdr and struct ifinfomsg are attributes.
    let mut at = 32;
    loop {
        let length = usize::from(u16::from_ne_bytes(number(answer, at)?));
        let value = answer.get(at + 4..at + length)?;
        if u16::from_ne_bytes(number(answer, at + 2)?) == libc::IFLA_QDISC {
            return value.strip_suffix(b"\0");
        }
        at += length.next_multiple_of(4);
    }
}

fn unanswered() -> io::Error {
    io::Error::other("rtnetlink gave no answer to a request about a queueing discipline")
}

/// Makes fq the root queueing discipline of an interface. Errors: the kernel has none (ENOENT), or no permission.
pub fn set_fq(index: libc::c_int) -> io::Result<()> {
    match verdict(&ask(&fq_request(index))?) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error)),
        None => Err(unanswered()),
    }
}

/// Whether frames may wait in a queueing discipline of an interface. Errors: there is no such interface (ENODEV).
pub fn has_queue(index: libc::c_int) -> io::Result<bool> {
    let answer = ask(&link_request(index))?;
    match (discipline(&answer), verdict(&answer)) {
        (Some(discipline), _) => Ok(discipline != b"noqueue"),
        (None, Some(error)) => Err(io::Error::from_raw_os_error(error)),
        (None, None) => Err(unanswered()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_well_formed() {
        let message = fq_request(7);
        assert_eq!(message[..4], (message.len() as u32).to_ne_bytes());
        assert_eq!(message.len() % 4, 0);
        // Attributes follow the two headers of 16 and 20 bytes and fill the message exactly.
        let mut kinds = vec![];
        let mut rest = &message[36..];
        while let [low, high, kind, 0, ..] = *rest {
            let length = usize::from(u16::from_ne_bytes([low, high]));
            kinds.push((u16::from(kind), length));
            rest = &rest[length.next_multiple_of(4)..];
        }
        assert!(rest.is_empty());
        assert_eq!(kinds, [(libc::TCA_KIND, 7), (libc::TCA_OPTIONS, 4 + 6 * 8 + 8)]);
    }

    #[test]
    fn answers() {
        let answer = |kind: libc::c_int, error: i32| {
            let mut bytes = vec![0; 4];
            bytes.extend((kind as u16).to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(error.to_ne_bytes());
            bytes
        };
        assert_eq!(verdict(&answer(libc::NLMSG_ERROR, 0)), Some(0));
        assert_eq!(verdict(&answer(libc::NLMSG_ERROR, -libc::ENOENT)), Some(libc::ENOENT));
        assert_eq!(verdict(&answer(libc::NLMSG_DONE, 0)), None);
        assert_eq!(verdict(&[]), None);
    }
    #[test]
    fn what_an_answer_names() {
        let mut answer = link_request(7);
        answer[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        append(&mut answer, libc::IFLA_IFNAME, b"p1\0");
        assert_eq!(discipline(&answer), None);
        append(&mut answer, libc::IFLA_QDISC, b"noqueue\0");
        assert_eq!(discipline(&answer), Some(&b"noqueue"[..]));
        for length in 0..answer.len() {
            assert_eq!(discipline(&answer[..length]), None);
        }
        answer[4..6].copy_from_slice(&(libc::NLMSG_ERROR as u16).to_ne_bytes());
        assert_eq!(discipline(&answer), None);
    }

    #[test]
    fn a_loopback_has_no_queue() {
        let index = narrows_packet_sockets::interface_index("lo").expect("every namespace has it");
        assert!(!has_queue(index).expect("an answer"));
        assert_eq!(has_queue(i32::MAX).expect_err("no such interface").raw_os_error(), Some(libc::ENODEV));
    }
}
