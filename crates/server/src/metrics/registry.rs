//! The table of counters: to add one, add a line.

porpoise_base::counters! {
    Accepted: "porpoise_connections_accepted_total", "", "Connections accepted.";
    Closed: "porpoise_connections_closed_total", "", "Connections closed.";
    RefusedMany: "porpoise_connections_refused_total", "reason=\"max_connections\"", "Connections refused.";
    LoginsEvicted: "porpoise_connections_refused_total", "reason=\"before_login\"", "Connections refused.";
    RefusedResources: "porpoise_connections_refused_total", "reason=\"resources\"", "Connections refused.";
    TimedOutLogin: "porpoise_connections_timed_out_total", "what=\"login\"", "Connections ended by a timeout.";
    TimedOutRequest: "porpoise_connections_timed_out_total", "what=\"request\"", "Connections ended by a timeout.";
    TimedOutIdle: "porpoise_connections_timed_out_total", "what=\"idle\"", "Connections ended by a timeout.";
    TimedOutWrite: "porpoise_connections_timed_out_total", "what=\"write\"", "Connections ended by a timeout.";
    Requests: "porpoise_requests_total", "", "Requests answered by all listeners.";
    BytesReceived: "porpoise_received_bytes_total", "", "Bytes received from clients.";
    BytesSent: "porpoise_sent_bytes_total", "", "Bytes sent to clients.";
    BatchedSends: "porpoise_batched_sends_total", "", "Sends to clients that shared a system call (io_uring) with others.";
    Polls: "porpoise_worker_polls_total", "", "Calls of epoll_wait.";
    DeferredReplies: "porpoise_replies_held_total", "", "Replies deferred until the log was synced.";
    HandOvers: "porpoise_group_handovers_total", "", "Event loops handed over to a spare worker because a session was about to wait.";
    Retakes: "porpoise_group_retakes_total", "", "Event loops retaken from a worker whose session computed for more than 0.75 ms.";
    Demotions: "porpoise_worker_demotions_total", "", "Workers whose priority was lowered during a long computation.";
    Deferred: "porpoise_requests_deferred_total", "", "Requests deferred because max_running_statements was reached, or because their connection computes for long.";
    HangUps: "porpoise_waits_ended_by_hangup_total", "", "Waiting statements cancelled because their client had disconnected.";
    UnknownOutcomes: "porpoise_unknown_outcomes_total", "", "Connections closed with an unknown commit outcome.";
    LoginsDenied: "porpoise_logins_denied_total", "", "Logins refused for a wrong name or password.";
    RestSucceeded: "porpoise_rest_requests_total", "status=\"2xx\"", "REST requests by class of their status (3xx counts as 2xx).";
    RestRefused: "porpoise_rest_requests_total", "status=\"4xx\"", "REST requests by class of their status (3xx counts as 2xx).";
    RestFailed: "porpoise_rest_requests_total", "status=\"5xx\"", "REST requests by class of their status (3xx counts as 2xx).";
    PanicsCaught: "porpoise_session_panics_total", "", "Sessions ended by an internal error (a panic).";
}
