//! Ctrl-C while a statement runs: the first ends the statement, the second the shell.
//!
//! SIGINT is blocked in every thread, and one thread waits for it. While a line is edited the terminal sends
//! no signal, because the editor reads Ctrl-C as a key.

use nix::sys::signal::{SigSet, Signal};
use porpoise_base::threads::{self, Role};
use porpoise_client::mysql::{Connection, Target};
use std::sync::{Arc, Mutex, PoisonError};

/// Exit status of a program that SIGINT has ended, as shells report it.
const INTERRUPTED: i32 = 130;

/// The statement that runs now.
struct Running {
    target: Target,
    id: u32,
    is_cancelled: bool,
}

/// The running statement, shared with the thread that waits for SIGINT.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Mutex<Option<Running>>>);

impl Interrupt {
    /// Blocks SIGINT in this thread and those that it starts, and starts the thread that waits for it. Must be
    /// called before other threads start.
    pub fn watch() -> Interrupt {
        let interrupt = Interrupt::default();
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGINT);
        // Without the block or the thread SIGINT ends the process, as by default.
        if signals.thread_block().is_ok() {
            let watched = interrupt.clone();
            let started = threads::spawn(Role::Interrupt, move || {
                while signals.wait().is_ok() {
                    watched.on_signal();
                }
            });
            if started.is_err() {
                let _ = signals.thread_unblock();
            }
        }
        interrupt
    }

    fn on_signal(&self) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match running.as_mut() {
            Some(statement) if !statement.is_cancelled => {
                statement.is_cancelled = true;
                let (target, id) = (statement.target.clone(), statement.id);
                drop(running);
                let kill = || Connection::connect(&target)?.execute(&format!("KILL QUERY {id}"));
                if let Err(error) = kill() {
                    eprintln!("cannot end the statement: {error}; press Ctrl-C again to leave");
                }
            }
            _ => std::process::exit(INTERRUPTED),
        }
    }

    /// Marks the beginning of a statement of a connection.
    pub fn begin(&self, target: &Target, id: u32) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Running {
            target: target.clone(),
            id,
            is_cancelled: false,
        });
    }

    /// Marks the end of the statement. Returns whether it was interrupted.
    pub fn end(&self) -> bool {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running
            .take()
            .is_some_and(|statement| statement.is_cancelled)
    }
}
