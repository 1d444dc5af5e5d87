//! The wire form is pinned, bounded, and survives any input.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

use proptest::prelude::*;
use toolcell_protocol::handshake::{PROTOCOL_MAX, PROTOCOL_MIN};
use toolcell_protocol::limits::{MAX_FRAME_BYTES, MAX_HANDSHAKE_FRAME_BYTES};
use toolcell_protocol::*;

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.as_bytes().to_vec())
}

fn hex<M: serde::Serialize>(message: &M) -> String {
    let mut out = Vec::new();
    encode_frame(message, &mut out).unwrap();
    data_encoding::HEXLOWER.encode(&out)
}

#[test]
fn golden_bytes() {
    let spec = ExecSpec {
        program: Program::Argv(vec![bytes("true")]),
        cwd: bytes("/workspace"),
        env: vec![(bytes("A"), bytes("b"))],
        stdin: Stdin::Closed,
        timeout_ms: 1000,
        max_output_bytes: 64,
    };
    assert_eq!(hex(&HostMessage::Ping { op: 1 }), "020000000001");
    assert_eq!(
        hex(&HostMessage::Exec { op: 2, call: "call_x".to_owned(), spec }),
        "2400000001020663616c6c5f78000104747275650a2f776f726b7370616365010141016200e80740"
    );
    assert_eq!(hex(&HostMessage::Shutdown), "0100000011");
    let ready =
        |shell: Option<&str>| GuestMessage::Ready { calls: vec![], next_op: 3, shell: shell.map(str::to_owned) };
    assert_eq!(hex(&ready(None)), "0400000000000300");
    assert_eq!(hex(&ready(Some("/bin/sh"))), "0c00000000000301072f62696e2f7368");
    assert_eq!(hex(&GuestMessage::Pong { op: 300 }), "0300000001ac02");
    assert_eq!(
        hex(&GuestMessage::Output { op: 7, stream: Stream::Stderr, offset: 5, data: bytes("hi") }),
        "0700000002070105026869"
    );
    assert_eq!(
        hex(&GuestMessage::Failed { op: 1, error: GuestError { code: ErrorCode::Io, message: "x".to_owned() } }),
        "0500000004010e0178"
    );
}

#[test]
fn frames_arrive_whole_however_they_are_cut() {
    let mut stream = Vec::new();
    for op in 0..50 {
        encode_frame(&HostMessage::Ping { op }, &mut stream).unwrap();
    }
    for step in [1, 2, 3, 7, 1000] {
        let mut decoder = FrameDecoder::new();
        let mut seen = Vec::new();
        for part in stream.chunks(step) {
            decoder.feed(part);
            while let Some(HostMessage::Ping { op }) = decoder.next_message().unwrap() {
                seen.push(op);
            }
        }
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn a_frame_is_refused_by_its_announced_length() {
    for (trusted, limit) in [(false, MAX_HANDSHAKE_FRAME_BYTES), (true, MAX_FRAME_BYTES)] {
        for (bytes, refused) in [(limit - 1, false), (limit, false), (limit + 1, true)] {
            let mut decoder = FrameDecoder::new();
            if trusted {
                decoder.trust();
            }
            decoder.feed(&u32::try_from(bytes).unwrap().to_le_bytes());
            assert_eq!(decoder.next_body().is_err(), refused, "{bytes} of {limit}");
        }
    }
}

#[test]
fn a_message_beyond_a_frame_is_not_sent() {
    let mut out = vec![1, 2, 3];
    let message = HostMessage::WriteData { op: 1, data: Bytes::from(vec![0; MAX_FRAME_BYTES + 1]), end: true };
    assert!(matches!(encode_frame(&message, &mut out), Err(FrameError::Unsendable { .. })));
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn trailing_bytes_are_an_error() {
    let mut decoder = FrameDecoder::new();
    decoder.feed(&[3, 0, 0, 0, 0, 1, 9]);
    assert!(matches!(decoder.next_message::<HostMessage>(), Err(FrameError::Malformed { .. })));
}

fn secret(byte: u8) -> Secret {
    Secret::from_bytes([byte; SECRET_BYTES])
}

fn shake(guest: &Secret, host: &Secret) -> Result<(), HandshakeError> {
    let hello = Hello::new("guest-1", [1; 32]);
    let mut to_host = Vec::new();
    encode_frame(&hello, &mut to_host).unwrap();
    let mut to_guest = Vec::new();
    let side = Handshake::answer(&to_host[4..], host, "host-1", [2; 32], &mut to_guest)?;
    let mut proof = Vec::new();
    Handshake::complete(&hello, &to_guest[4..], guest, &mut proof)?;
    side.verify(&proof[4..])
}

#[test]
fn the_handshake_proves_both_sides() {
    assert_eq!(shake(&secret(1), &secret(1)), Ok(()));
    assert_eq!(shake(&secret(1), &secret(2)), Err(HandshakeError::Proof { peer: "host" }));
    // A guest that skips its own check still cannot answer.
    let hello = Hello::new("g", [1; 32]);
    let mut frame = Vec::new();
    encode_frame(&hello, &mut frame).unwrap();
    let mut answer = Vec::new();
    let side = Handshake::answer(&frame[4..], &secret(1), "h", [2; 32], &mut answer).unwrap();
    // Reflecting the host's own proof is not a proof of the guest.
    let reflected = &answer[answer.len() - 32..];
    assert_eq!(side.verify(reflected), Err(HandshakeError::Proof { peer: "guest" }));
}

#[test]
fn versions_that_do_not_meet_name_each_other() {
    let mut hello = Hello::new("guest-9", [1; 32]);
    hello.protocol_min = PROTOCOL_MAX + 1;
    hello.protocol_max = PROTOCOL_MAX + 2;
    let mut frame = Vec::new();
    encode_frame(&hello, &mut frame).unwrap();
    let mut answer = Vec::new();
    let error = Handshake::answer(&frame[4..], &secret(1), "host-1", [2; 32], &mut answer).unwrap_err().to_string();
    assert!(error.contains("guest-9") && error.contains("host-1"), "{error}");
    let refused = Handshake::complete(&hello, &answer[4..], &secret(1), &mut Vec::new()).unwrap_err().to_string();
    assert!(refused.contains("guest-9") && refused.contains("host-1"), "{refused}");
    const { assert!(PROTOCOL_MIN <= PROTOCOL_MAX) };
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic_a_decoder(input in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = frame::decode_body::<HostMessage>(&input);
        let _ = frame::decode_body::<GuestMessage>(&input);
        let _ = Handshake::answer(&input, &secret(1), "h", [0; 32], &mut Vec::new());
        let mut decoder = FrameDecoder::new();
        decoder.feed(&input);
        while let Ok(Some(_)) = decoder.next_body() {}
    }

    #[test]
    fn output_round_trips(op in any::<u64>(), offset in any::<u64>(), data in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let message = GuestMessage::Output { op, stream: Stream::Stdout, offset, data: Bytes::from(data) };
        let mut frame = Vec::new();
        encode_frame(&message, &mut frame).unwrap();
        let mut decoder = FrameDecoder::new();
        decoder.feed(&frame);
        prop_assert_eq!(decoder.next_message::<GuestMessage>().unwrap(), Some(message));
    }
}
