//! The tokio runtime that the engine owns, and waits with a deadline.
//!
//! Invariants:
//! 1. A wait ends when its future does, at its deadline, or when its session is cancelled, whichever is
//!    first. No lost wake-up: the waker is registered before the reason is read, and `Notify` stores a
//!    wake-up that comes before the sleep.
//! 2. No thread of the runtime itself waits.
//!
//! Rejected: a handle of another owner's runtime (its owner may end it first, or call the engine from one
//! of its threads).

use porpoise_base::blocking::blocking;
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_kv::{Error, Result};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

/// Outcome of a wait.
pub(crate) enum WaitOutcome<T> {
    Done(T),
    Deadline,
    Cancelled(Reason),
}

/// The engine's runtime.
pub(crate) struct Io {
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Io {
    /// Starts a runtime of `threads` threads.
    pub(crate) fn new(threads: usize) -> Result<Io> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("porpoise-tikv")
            .enable_all()
            .build()
            .map_err(|e| Error::Io(format!("starting the threads of the TiKV client: {e}")))?;
        let handle = runtime.handle().clone();
        Ok(Io {
            runtime: Some(runtime),
            handle,
        })
    }

    /// Handle to spawn background tasks.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for `future` without a deadline.
    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        blocking(|| self.handle.block_on(future))
    }

    /// Waits for `future` until `deadline` or until cancelled.
    pub(crate) fn wait<F: Future>(
        &self,
        cancel: &Cancel,
        deadline: Option<Instant>,
        future: F,
    ) -> WaitOutcome<F::Output> {
        let notify = Arc::new(Notify::new());
        let wake = notify.clone();
        let _registration = cancel.register(Arc::new(move || wake.notify_one()));
        self.run(async {
            let mut future = pin!(future);
            let sleep = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let mut sleep = pin!(sleep);
            loop {
                if let Some(reason) = cancel.reason() {
                    return WaitOutcome::Cancelled(reason);
                }
                tokio::select! {
                    biased;
                    value = &mut future => return WaitOutcome::Done(value),
                    () = notify.notified() => {}
                    () = &mut sleep => return WaitOutcome::Deadline,
                }
            }
        })
    }

    /// Waits for `future` until cancelled.
    pub(crate) fn wait_result<T>(
        &self,
        cancel: &Cancel,
        future: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match self.wait(cancel, None, future) {
            WaitOutcome::Done(result) => result,
            WaitOutcome::Cancelled(reason) => Err(Error::Cancelled(reason)),
            WaitOutcome::Deadline => Err(Error::LockTimeout),
        }
    }

    /// Waits for `future` for at most `limit`; `None` when that passed.
    pub(crate) fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        self.run(async { tokio::time::timeout(limit, future).await.ok() })
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        // Dropping the runtime would block, which is forbidden on a thread that runs tokio tasks.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_future_at_its_deadline_and_when_cancelled() {
        let io = Io::new(1).unwrap();
        let cancel = Cancel::new();
        assert!(matches!(
            io.wait(&cancel, None, async { 3 }),
            WaitOutcome::Done(3)
        ));
        let soon = Some(Instant::now() + Duration::from_millis(20));
        let never = std::future::pending::<()>;
        assert!(matches!(
            io.wait(&cancel, soon, never()),
            WaitOutcome::Deadline
        ));
        let other = cancel.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            other.cancel(Reason::Query);
        });
        assert!(matches!(
            io.wait(&cancel, None, never()),
            WaitOutcome::Cancelled(Reason::Query)
        ));
        thread.join().unwrap();
        assert!(matches!(
            io.wait(&cancel, None, never()),
            WaitOutcome::Cancelled(Reason::Query)
        ));
    }

    #[test]
    fn the_runtime_may_be_dropped_on_a_thread_of_tokio() {
        let outer = Io::new(1).unwrap();
        let inner = Io::new(1).unwrap();
        let task = outer.handle().spawn(async move { drop(inner) });
        outer.run(task).unwrap();
    }
}
