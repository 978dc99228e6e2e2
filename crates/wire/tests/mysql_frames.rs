//! Packets: splitting, joining, limits, sequence numbers, any cut.

use crate::support::Random;
use porpoise_wire::mysql::ProtocolError;
use porpoise_wire::mysql::frame::{self, FrameStep, LOGIN_LIMIT, MAX_PACKET_PAYLOAD, PacketReader};

fn logged_in(limit: usize) -> PacketReader {
    let mut reader = PacketReader::before_login();
    reader.set_limit(limit);
    reader
}

/// Returns the packets of a stream that arrives in pieces of the sizes chosen by `cut`.
fn packets(
    stream: &[u8],
    mut reader: PacketReader,
    mut cut: impl FnMut(usize) -> usize,
) -> Result<Vec<Option<Vec<u8>>>, ProtocolError> {
    let mut buf: Vec<u8> = Vec::new();
    let mut given = 0;
    let mut found = Vec::new();
    loop {
        match reader.next(&mut buf)? {
            FrameStep::NeedMore(missing) => {
                assert!(missing > 0 && missing <= MAX_PACKET_PAYLOAD);
                if given == stream.len() {
                    return Ok(found);
                }
                let n = cut(stream.len() - given).clamp(1, stream.len() - given);
                buf.extend_from_slice(&stream[given..given + n]);
                given += n;
            }
            FrameStep::Packet { payload, consumed } => {
                found.push(Some(buf[payload].to_vec()));
                buf.drain(..consumed);
                reader.expect(0);
            }
            FrameStep::Skip { consumed } => {
                assert!(consumed > 0);
                buf.drain(..consumed);
            }
            FrameStep::TooLarge { consumed } => {
                found.push(None);
                buf.drain(..consumed);
                reader.expect(0);
            }
        }
    }
}

fn written(payload: &[u8]) -> (Vec<u8>, u8) {
    let (mut out, mut sequence) = (Vec::new(), 0);
    frame::packet(&mut out, &mut sequence, payload);
    (out, sequence)
}

#[test]
fn payloads_around_the_split_round_trip() {
    for (length, pieces) in [
        (0, 1),
        (1, 1),
        (MAX_PACKET_PAYLOAD - 1, 1),
        (MAX_PACKET_PAYLOAD, 2),
        (MAX_PACKET_PAYLOAD + 1, 2),
        (2 * MAX_PACKET_PAYLOAD, 3),
        (2 * MAX_PACKET_PAYLOAD + 7, 3),
    ] {
        let mut payload = vec![7u8; length];
        // Marks at the seams.
        for at in [
            0,
            MAX_PACKET_PAYLOAD - 1,
            MAX_PACKET_PAYLOAD,
            2 * MAX_PACKET_PAYLOAD,
        ] {
            if let Some(byte) = payload.get_mut(at) {
                *byte = at as u8 ^ 0x55;
            }
        }
        let (stream, sequence) = written(&payload);
        assert_eq!(sequence, pieces, "{length}");
        assert_eq!(stream.len(), length + 4 * usize::from(pieces));
        for size in [usize::MAX, 5_000_011] {
            let found = packets(&stream, logged_in(1 << 30), |_| size).expect("packets");
            assert!(found == [Some(payload.clone())], "{length} {size}");
        }
    }
}

#[test]
fn an_answer_continues_the_sequence() {
    let (mut stream, _) = written(&vec![1; MAX_PACKET_PAYLOAD]);
    let mut reader = logged_in(1 << 30);
    assert!(matches!(
        reader.next(&mut stream),
        Ok(FrameStep::Packet { .. })
    ));
    assert_eq!(reader.sequence(), 2);
}

#[test]
fn several_packets_are_found_at_any_cut() {
    let mut random = Random(3);
    for _ in 0..200 {
        let payloads: Vec<_> = (0..6)
            .map(|_| {
                let n = random.below(40);
                random.bytes(n)
            })
            .collect();
        let stream: Vec<u8> = payloads.iter().flat_map(|p| written(p).0).collect();
        let expected: Vec<_> = payloads
            .into_iter()
            .map(|p| (p.len() <= 30).then_some(p))
            .collect();
        let whole = packets(&stream, logged_in(30), |left| left).expect("packets");
        assert_eq!(whole, expected);
        assert_eq!(packets(&stream, logged_in(30), |_| 1), Ok(expected.clone()));
        let cut = |left| 1 + random.below(left);
        assert_eq!(packets(&stream, logged_in(30), cut), Ok(expected));
    }
}

#[test]
fn before_login_a_large_packet_is_an_error_at_its_header() {
    let mut stream = ((LOGIN_LIMIT + 1) as u32).to_le_bytes();
    stream[3] = 0;
    let mut reader = PacketReader::before_login();
    assert_eq!(reader.next(&mut stream), Err(ProtocolError::TooLarge));
    let mut huge = [0xff, 0xff, 0xff, 0];
    assert_eq!(
        PacketReader::before_login().next(&mut huge),
        Err(ProtocolError::TooLarge)
    );
}

#[test]
fn after_login_a_large_packet_is_dropped_and_the_next_one_read() {
    let (large, _) = written(&vec![9; MAX_PACKET_PAYLOAD + 100]);
    let stream = [large, written(b"next").0].concat();
    for limit in [10, MAX_PACKET_PAYLOAD, MAX_PACKET_PAYLOAD + 99] {
        let found = packets(&stream, logged_in(limit), |_| 3_000_001).expect("packets");
        assert!(found == [None, Some(b"next".to_vec())], "{limit}");
    }
    let found =
        packets(&stream, logged_in(MAX_PACKET_PAYLOAD + 100), |left| left).expect("packets");
    assert!(
        found[0]
            .as_ref()
            .is_some_and(|p| p.len() == MAX_PACKET_PAYLOAD + 100)
    );
}

#[test]
fn sequence_numbers_must_follow() {
    let mut reader = PacketReader::before_login();
    let mut stream = [1, 0, 0, 1, 42];
    assert_eq!(reader.next(&mut stream), Err(ProtocolError::OutOfOrder));
    reader.expect(1);
    assert!(matches!(
        reader.next(&mut stream),
        Ok(FrameStep::Packet { .. })
    ));
}

#[test]
fn noise_never_panics() {
    let mut random = Random(4);
    for _ in 0..20_000 {
        let n = random.below(60);
        let mut stream = random.bytes(n);
        // Short lengths and fitting numbers, so that something is found.
        for at in [1, 2, 3] {
            if random.below(3) > 0
                && let Some(byte) = stream.get_mut(at)
            {
                *byte = 0;
            }
        }
        let whole = packets(&stream, logged_in(20), |left| left);
        assert_eq!(
            whole.is_ok(),
            packets(&stream, logged_in(20), |_| 1).is_ok()
        );
    }
}
