//! The counters of the native listener. To add a counter, add a line here.

porpoise_base::counters! {
    Read: "porpoise_native_operations_total", "operation=\"read\"", "Operations on rows by native clients and over REST.";
    Insert: "porpoise_native_operations_total", "operation=\"insert\"", "Operations on rows by native clients and over REST.";
    Update: "porpoise_native_operations_total", "operation=\"update\"", "Operations on rows by native clients and over REST.";
    Upsert: "porpoise_native_operations_total", "operation=\"upsert\"", "Operations on rows by native clients and over REST.";
    Delete: "porpoise_native_operations_total", "operation=\"delete\"", "Operations on rows by native clients and over REST.";
    Scanned: "porpoise_native_operations_total", "operation=\"scan\"", "Operations on rows by native clients and over REST.";
    Changes: "porpoise_native_changes_total", "", "Changes of rows sent to subscriptions of native clients.";
    Batches: "porpoise_native_batches_total", "", "Batches of native clients and of REST.";
    Failed: "porpoise_native_errors_total", "", "Requests and operations of native clients that failed.";
    Retried: "porpoise_native_retries_total", "", "Requests of native clients repeated after a conflict.";
}
