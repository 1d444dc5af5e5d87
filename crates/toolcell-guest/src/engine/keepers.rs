//! PID 1's side of its keepers: a few wait idle, so that a call costs no fork of the guest.

use crate::keeper;
use crate::keeper::job::{FromKeeper, ToKeeper};
use crate::sys::process;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use toolcell_protocol::message::Op;
use toolcell_protocol::{FrameDecoder, FrameError, encode_frame};

/// Keepers that may wait idle; one that gets free beyond this ends.
const MOST_IDLE: usize = 4;

/// Names a keeper for as long as the guest lives.
pub(crate) type KeeperId = u64;

/// A keeper process.
#[derive(Debug)]
pub(crate) struct Keeper {
    pid: i32,
    /// `None` once it has been let go; it is only listed until it has ended.
    socket: Option<OwnedFd>,
    decoder: FrameDecoder,
    /// The call it keeps.
    pub(crate) op: Option<Op>,
}

/// Why a job could not be handed over.
#[derive(Debug)]
pub(crate) enum HandError {
    /// The keeper is gone.
    Gone,
    /// The job does not fit into a frame.
    TooLarge,
}

/// All keepers.
#[derive(Debug, Default)]
pub(crate) struct Keepers {
    all: BTreeMap<KeeperId, Keeper>,
    /// Last in, first out: the one that ran last has the warmest memory.
    idle: Vec<KeeperId>,
    last_id: KeeperId,
}

impl Keepers {
    /// Makes one more, idle, that runs tools as `user`. `discard` frees in the copy what belongs to the guest.
    pub(crate) fn fork(&mut self, user: (u32, u32), discard: impl FnOnce()) -> Result<KeeperId, Errno> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let discard = || {
            discard();
            self.all.clear();
            self.idle.clear();
        };
        let pid = process::fork(theirs, discard, |socket| keeper::main(socket, user.0, user.1))?;
        self.last_id = self.last_id.saturating_add(1);
        let mut decoder = FrameDecoder::new();
        decoder.trust();
        self.all.insert(self.last_id, Keeper { pid, socket: Some(ours), decoder, op: None });
        self.idle.push(self.last_id);
        Ok(self.last_id)
    }

    /// None waits.
    pub(crate) fn none_idle(&self) -> bool {
        self.idle.is_empty()
    }

    /// Takes one that waits.
    pub(crate) fn take_idle(&mut self) -> Option<KeeperId> {
        self.idle.pop()
    }

    /// Its channel, to be watched.
    pub(crate) fn socket(&self, id: KeeperId) -> Option<BorrowedFd<'_>> {
        self.all.get(&id).and_then(|keeper| keeper.socket.as_ref()).map(rustix::fd::AsFd::as_fd)
    }

    /// The keeper's process.
    pub(crate) fn pid(&self, id: KeeperId) -> Option<i32> {
        self.all.get(&id).map(|keeper| keeper.pid)
    }

    /// Process numbers of all keepers.
    pub(crate) fn pids(&self) -> Vec<i32> {
        self.all.values().map(|keeper| keeper.pid).collect()
    }

    /// Hands a call to a keeper that was taken.
    pub(crate) fn hand(
        &mut self,
        id: KeeperId,
        op: Op,
        job: &ToKeeper,
        stdio: [BorrowedFd<'_>; 3],
    ) -> Result<(), HandError> {
        let keeper = self.all.get_mut(&id).ok_or(HandError::Gone)?;
        let socket = keeper.socket.as_ref().ok_or(HandError::Gone)?;
        let mut frame = Vec::with_capacity(1024);
        encode_frame(job, &mut frame).map_err(|error| match error {
            FrameError::Unsendable { .. } | FrameError::TooLong { .. } | FrameError::Malformed { .. } => {
                HandError::TooLarge
            }
        })?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&stdio));
        let first = loop {
            let sent = rustix::net::sendmsg(socket, &[IoSlice::new(&frame)], &mut ancillary, SendFlags::NOSIGNAL);
            match sent {
                Err(Errno::INTR) => {}
                sent => break sent.map_err(|_| HandError::Gone)?,
            }
        };
        send_rest(socket, frame.get(first..).unwrap_or_default())?;
        keeper.op = Some(op);
        Ok(())
    }

    /// Says something to a keeper. One that is gone is found out when it is reaped.
    pub(crate) fn tell(&self, id: KeeperId, message: &ToKeeper) {
        let mut frame = Vec::with_capacity(16);
        if let Some(socket) = self.all.get(&id).and_then(|keeper| keeper.socket.as_ref())
            && encode_frame(message, &mut frame).is_ok()
        {
            let _ = send_rest(socket, &frame);
        }
    }

    /// What a keeper says next, and for which call.
    pub(crate) fn hear(&mut self, id: KeeperId) -> Option<(Op, FromKeeper)> {
        let keeper = self.all.get_mut(&id)?;
        loop {
            if let Some(message) = keeper.decoder.next_message().ok()? {
                return keeper.op.map(|op| (op, message));
            }
            let mut buffer = [0u8; 1024];
            let socket = keeper.socket.as_ref()?;
            match rustix::net::recv(socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((read, _)) if read > 0 => keeper.decoder.feed(buffer.get(..read).unwrap_or_default()),
                Err(Errno::INTR) => {}
                // Nothing more, or it has died, which its end as a child will say.
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// Its call is over: it waits for the next one, or ends.
    pub(crate) fn free(&mut self, id: KeeperId) {
        if let Some(keeper) = self.all.get_mut(&id) {
            keeper.op = None;
            if self.idle.len() < MOST_IDLE && keeper.socket.is_some() {
                self.idle.push(id);
            } else {
                keeper.socket = None;
            }
        }
    }

    /// Lets go of a keeper whose tree does not end: it goes on killing and then ends.
    pub(crate) fn abandon(&mut self, id: KeeperId) {
        if let Some(keeper) = self.all.get_mut(&id) {
            keeper.op = None;
            keeper.socket = None;
        }
    }

    /// A child of PID 1 has ended. If it was a keeper, it is forgotten; returns the call that it kept.
    pub(crate) fn ended(&mut self, pid: i32) -> Option<Keeper> {
        let id = self.all.iter().find_map(|(id, keeper)| (keeper.pid == pid).then_some(*id))?;
        self.idle.retain(|idle| *idle != id);
        self.all.remove(&id)
    }
}

fn send_rest(socket: &OwnedFd, mut rest: &[u8]) -> Result<(), HandError> {
    while !rest.is_empty() {
        match rustix::net::send(socket, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(_) => return Err(HandError::Gone),
        }
    }
    Ok(())
}
