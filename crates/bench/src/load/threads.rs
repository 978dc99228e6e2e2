//! A thread for a connection: write, wait, verify, again.

use super::{Client, Course, Stage, Tally, schedule, verify};
use crate::error::Result;
use crate::proto::{Answer, Call};
use std::time::Instant;

/// Drives the connections of one thread, of which there is one.
pub(super) fn drive(
    clients: Vec<Client<'_>>,
    course: Course,
    stage: &Stage,
    tally: &mut Tally,
) -> Result<()> {
    for client in clients {
        if course.rate.is_some() {
            drive_open(client, course, stage, tally)?;
        } else {
            drive_closed(client, stage, tally)?;
        }
    }
    Ok(())
}

fn drive_closed(mut client: Client<'_>, stage: &Stage, tally: &mut Tally) -> Result<()> {
    let (mut call, mut answer) = (Call::default(), Answer::default());
    while !stage.is_over() && client.worker.next(&mut call) {
        let sent = Instant::now();
        client.connection.exchange(&call, &mut answer)?;
        if verify(client.worker.as_mut(), &answer)? {
            tally.count(stage, sent, Instant::now());
        } else {
            tally.refused += 1;
        }
    }
    Ok(())
}

/// As [`drive_closed`], with requests that are due at fixed times.
fn drive_open(
    mut client: Client<'_>,
    course: Course,
    stage: &Stage,
    tally: &mut Tally,
) -> Result<()> {
    let Some(mut schedule) = course.schedule(stage, client.number) else {
        return Ok(());
    };
    crate::sys::wake_on_time();
    let (mut call, mut answer) = (Call::default(), Answer::default());
    while client.worker.next(&mut call) {
        let Some(due) = schedule.wait(stage, tally) else {
            break;
        };
        client.connection.exchange(&call, &mut answer)?;
        if verify(client.worker.as_mut(), &answer)? {
            schedule::count(stage, tally, due, Instant::now());
        } else {
            tally.refused += 1;
        }
    }
    schedule.close(stage, tally);
    Ok(())
}
