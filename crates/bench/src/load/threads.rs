//! A thread for a connection: write, wait, verify, again.

use super::{Stage, Tally, Worker, verify};
use crate::conn::Connection;
use crate::error::Result;
use crate::proto::{Answer, Call};
use std::time::Instant;

/// Drives the connections of one thread, of which there is one.
pub fn drive(
    connections: Vec<(Connection, Box<dyn Worker + '_>)>,
    stage: &Stage,
    tally: &mut Tally,
) -> Result<()> {
    for (mut connection, mut worker) in connections {
        let (mut call, mut answer) = (Call::default(), Answer::default());
        while !stage.is_over() && worker.next(&mut call) {
            let sent = Instant::now();
            connection.exchange(&call, &mut answer)?;
            if verify(worker.as_mut(), &answer)? {
                tally.count(stage, sent, Instant::now());
            } else {
                tally.refused += 1;
            }
        }
    }
    Ok(())
}
