//! The tokio runtime that the client owns, and waits with a deadline on the caller's thread.
//!
//! Invariants:
//! 1. A wait ends when its future does, at its deadline, or when its session is cancelled, whichever is
//!    first. No lost wake-up: the waker is registered before the reason is read, and `Notify` stores a
//!    wake-up that comes before the sleep.
//! 2. No thread of the runtime itself waits.
//!
//! Rejected: a handle of another owner's runtime (its owner may end it first, or call the client from one
//! of its threads).

use crate::error::{Error, Result};
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::Cancel;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

/// Limits of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Ends the call when the session is cancelled.
    pub cancel: &'a Cancel,
    /// Ends the call at this time. Without it, the call ends when nothing has succeeded for
    /// [`crate::ClientOptions::retry_time`].
    pub deadline: Option<Instant>,
}

/// The client's runtime.
pub(crate) struct Threads {
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Threads {
    /// Starts a runtime of `threads` threads.
    pub(crate) fn start(threads: usize) -> Result<Threads> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("porpoise-tikv")
            .enable_all()
            .build()
            .map_err(|e| {
                Error::Unavailable(format!("starting the threads of the TiKV client: {e}"))
            })?;
        let handle = runtime.handle().clone();
        Ok(Threads {
            runtime: Some(runtime),
            handle,
        })
    }

    /// Handle for background tasks.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for `future` for at most `limit`; `None` when that passed.
    pub(crate) fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        let bounded = async { tokio::time::timeout(limit, future).await.ok() };
        blocking(|| self.handle.block_on(bounded))
    }

    /// Waits for `future` until the call's deadline, or until it is cancelled.
    pub(crate) fn wait<T>(
        &self,
        call: Call<'_>,
        future: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let notify = Arc::new(Notify::new());
        let wake = notify.clone();
        let _registration = call.cancel.register(Arc::new(move || wake.notify_one()));
        let waiting = async {
            let mut future = pin!(future);
            let sleep = async {
                match call.deadline {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let mut sleep = pin!(sleep);
            loop {
                if let Some(reason) = call.cancel.reason() {
                    return Err(Error::Cancelled(reason));
                }
                tokio::select! {
                    biased;
                    result = &mut future => return result,
                    () = notify.notified() => {}
                    () = &mut sleep => return Err(Error::Deadline("no answer yet".into())),
                }
            }
        };
        match blocking(|| self.handle.block_on(waiting)) {
            // The attempts ended because the call's time was over.
            Err(Error::Unavailable(why))
                if call.deadline.is_some_and(|at| Instant::now() >= at) =>
            {
                Err(Error::Deadline(why))
            }
            result => result,
        }
    }
}

impl Drop for Threads {
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
    use porpoise_base::cancel::Reason;

    #[test]
    fn a_wait_ends_with_its_future_at_its_deadline_and_when_cancelled() {
        let threads = Threads::start(1).unwrap();
        let cancel = Cancel::new();
        let call = |deadline| Call {
            cancel: &cancel,
            deadline,
        };
        assert_eq!(threads.wait(call(None), async { Ok(3) }).unwrap(), 3);
        let soon = Some(Instant::now() + Duration::from_millis(20));
        let never = std::future::pending::<Result<()>>;
        let late = threads.wait(call(soon), never());
        assert!(matches!(late, Err(Error::Deadline(_))));
        let other = cancel.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            other.cancel(Reason::Query);
        });
        for _ in 0..2 {
            let ended = threads.wait(call(None), never());
            assert!(matches!(ended, Err(Error::Cancelled(Reason::Query))));
        }
        thread.join().unwrap();
    }

    #[test]
    fn the_runtime_may_be_dropped_on_a_thread_of_tokio() {
        let outer = Threads::start(1).unwrap();
        let inner = Threads::start(1).unwrap();
        let task = outer.handle().spawn(async move { drop(inner) });
        outer.handle().block_on(task).unwrap();
    }
}
