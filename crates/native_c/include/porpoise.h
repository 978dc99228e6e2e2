/* Client of Porpoise's native protocol: rows by key in batches, scans, transactions, subscriptions.
 *
 * Link with -lporpoise_c. docs/guide/native.md has an introduction; examples/thousand_rows.c and examples/follow.c are programs
 * that use everything. This file is generated from the sources of the library.
 *
 * Functions that can fail return 0, MySQL's number of the server's error, or one of the negative numbers
 * below; porpoise_error_message() has the text. Functions that return an object write it to *out only if
 * they succeed; the caller frees it. Objects may be passed between threads, but one object must not be
 * used by two threads at a time. Strings are UTF-8 and end with a zero byte. A null pointer where an object
 * or a string is needed is refused with PORPOISE_USAGE.
 */

#ifndef PORPOISE_H
#define PORPOISE_H

#include <stddef.h>
#include <stdint.h>

// The connection could not be opened.
#define PORPOISE_CONNECT -1

// The connection broke, and the request has had no effect.
#define PORPOISE_BROKEN -2

// The connection broke after a write was sent: it may or may not have been executed.
#define PORPOISE_UNKNOWN_OUTCOME -3

// The server does not speak this protocol.
#define PORPOISE_PROTOCOL -4

// Wrong arguments, or values that do not fit.
#define PORPOISE_USAGE -5

// A defect of the library. Objects used by the call must only be freed.
#define PORPOISE_INTERNAL -6

// No TLS.
#define PORPOISE_TLS_OFF 0

// TLS; the certificate is not verified.
#define PORPOISE_TLS_REQUIRED 1

// TLS; an authority has signed the certificate.
#define PORPOISE_TLS_VERIFY_CA 2

// TLS; an authority has signed the certificate, and it names the host.
#define PORPOISE_TLS_VERIFY_IDENTITY 3

// Reads a row.
#define PORPOISE_READ 1

// Inserts a row.
#define PORPOISE_INSERT 2

// Changes a row.
#define PORPOISE_UPDATE 3

// Inserts a row, or changes the row with its key.
#define PORPOISE_UPSERT 4

// Deletes a row.
#define PORPOISE_DELETE 5

// Returns the version of the row.
#define PORPOISE_WITH_VERSION 1

// Returns the id generated for an inserted row.
#define PORPOISE_WITH_GENERATED_ID 2

// Locks rows that are read until the transaction ends.
#define PORPOISE_FOR_UPDATE 4

// Requires a version of the row.
#define PORPOISE_IF_VERSION 8

// Scans from the end of the range (scans only).
#define PORPOISE_REVERSE 16

// Returns whether an UPSERT has inserted its row.
#define PORPOISE_WITH_CREATED 32

// Reads or sets the column.
#define PORPOISE_COLUMN 0

// Adds to the column.
#define PORPOISE_ADD 1

// Requires a value of the column.
#define PORPOISE_IF_EQUALS 2

// NULL.
#define PORPOISE_NULL 0

// A signed integer.
#define PORPOISE_INT 1

// An unsigned integer.
#define PORPOISE_UINT 2

// A number of double precision.
#define PORPOISE_DOUBLE 3

// Strings and bytes; DECIMAL, dates and times as text.
#define PORPOISE_BYTES 4

// A value that the change log does not have (`binlog_row_image`).
#define PORPOISE_MISSING 5

// The operation was executed; a row was read or written.
#define PORPOISE_OK 0

// No row has the key.
#define PORPOISE_NOT_FOUND 1

// The row has another version or value.
#define PORPOISE_CONDITION_FAILED 2

// `error` and `message` say why.
#define PORPOISE_FAILED 3

// Another operation of the atomic batch failed.
#define PORPOISE_ABORTED 4

// A row was inserted: `after`.
#define PORPOISE_INSERTED 1

// A row was changed: `before`, `after`.
#define PORPOISE_UPDATED 2

// A row was deleted: `before`.
#define PORPOISE_DELETED 3

// A statement has changed the table: `definition`. The rows that follow may have other columns.
#define PORPOISE_DEFINED 4

// Operations that are sent together.
typedef struct porpoise_batch porpoise_batch;

// A connection.
typedef struct porpoise_connection porpoise_connection;

// An operation on one row.
typedef struct porpoise_operation porpoise_operation;

// Results of a batch, or rows of a page.
typedef struct porpoise_reply porpoise_reply;

// Changes of the rows of a table, over a connection of its own that is opened again when it breaks.
typedef struct porpoise_subscription porpoise_subscription;

// A table, as of one version of its definition.
typedef struct porpoise_table porpoise_table;

// The changes of one transaction.
typedef struct porpoise_transaction porpoise_transaction;

// A server, and how to log in.
typedef struct {
    // Host and port, or null.
    const char *host;
    uint16_t port;
    // Path of a Unix socket, or null.
    const char *socket;
    const char *user;
    // Null: none.
    const char *password;
    // PORPOISE_TLS_...
    int tls;
    // File with certificates (PEM), or null.
    const char *authorities;
    // Longest wait for the connection and for each answer; 0: 10 seconds, and no limit.
    uint32_t timeout_ms;
} porpoise_target;

// A column of an operation.
typedef struct {
    const char *name;
    // PORPOISE_COLUMN, PORPOISE_ADD or PORPOISE_IF_EQUALS.
    int used_as;
} porpoise_column;

// A value.
typedef struct {
    // PORPOISE_NULL to PORPOISE_MISSING: selects the field that is used.
    int kind;
    int64_t int_value;
    uint64_t uint_value;
    double double_value;
    const uint8_t *bytes;
    size_t length;
} porpoise_value;

// A bound of a range: values of the first columns of an index.
typedef struct {
    const porpoise_value *values;
    // 0: the end of the index.
    size_t count;
    // Keys that begin with the values are not in the range.
    int excludes;
} porpoise_bound;

// A scan.
typedef struct {
    // Null: the primary key.
    const char *index;
    const char *const *columns;
    size_t column_count;
    porpoise_bound lower;
    porpoise_bound upper;
    // Maximum number of rows of a page; 0: a page ends at about 1 MiB.
    uint32_t limit;
    // PORPOISE_WITH_VERSION, PORPOISE_REVERSE.
    uint32_t flags;
    // The continuation of the previous page; null for the first page.
    const uint8_t *continuation;
    size_t continuation_length;
} porpoise_scan_request;

// A result.
typedef struct {
    // PORPOISE_OK to PORPOISE_ABORTED.
    int status;
    // Version of the row with PORPOISE_WITH_VERSION; otherwise 0.
    uint64_t version;
    // Generated id of the row with PORPOISE_WITH_GENERATED_ID; otherwise 0.
    uint64_t generated_id;
    // Whether an UPSERT with PORPOISE_WITH_CREATED has inserted its row; otherwise 0.
    int is_new;
    // Values of a row that was read. Valid until the reply is freed.
    const porpoise_value *values;
    size_t value_count;
    // MySQL's error number.
    int error;
    // Valid until the reply is freed.
    const char *message;
} porpoise_result;

// A range of the primary key.
typedef struct {
    porpoise_bound lower;
    porpoise_bound upper;
} porpoise_range;

// Options of a subscription.
typedef struct {
    // Changes of rows whose key is in one of these ranges, before or after the change.
    const porpoise_range *ranges;
    // 0: all rows.
    size_t range_count;
    // Null or "now", "first", that of a transaction, or FILE:POSITION of the binary log.
    const char *position;
} porpoise_subscribe_request;

// Properties of a transaction. The strings are valid until it is freed.
typedef struct {
    // Identifier; empty if it has none.
    const char *gtid;
    // The position after the transaction, from which another process can continue: store it together with the results of the changes.
    const char *position;
    // Time of the commit in microseconds since 1970 UTC.
    uint64_t micros;
    size_t change_count;
} porpoise_transaction_info;

// A column that the table had when a change was logged.
typedef struct {
    const char *name;
    // The type in SQL.
    const char *sql_type;
    // Whether it is part of the primary key.
    int is_in_key;
} porpoise_changed_column;

// A change. Everything in it is valid until the transaction is freed.
typedef struct {
    // PORPOISE_INSERTED to PORPOISE_DEFINED.
    int kind;
    // "create", "alter", "truncate" (all rows were removed), "drop", "rename" or "unknown"; null for rows.
    const char *definition;
    const porpoise_changed_column *columns;
    // Number of columns, and of values of each row.
    size_t column_count;
    // The row before; null for an inserted one. A value of kind PORPOISE_MISSING is not in the log.
    const porpoise_value *before;
    // The row after; null for a deleted one.
    const porpoise_value *after;
} porpoise_change;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of the calling thread's last failure, valid until its next one.
const char *porpoise_error_message(void);

// Connects and logs in.
int porpoise_connect(const porpoise_target *to, porpoise_connection **out);

// Closes and frees the connection. An open transaction is rolled back.
void porpoise_disconnect(porpoise_connection *connection);

// Looks up a table. After error 1412 look it up again, and make its operations again.
int porpoise_open_table(porpoise_connection *connection, const char *database, const char *name, porpoise_table **out);

// Frees a table.
void porpoise_free_table(porpoise_table *table);

// An operation on one row, found by the unique key `index`, or by the primary key if it is null.
int porpoise_new_operation(const porpoise_table *table,
                           int kind,
                           const char *index,
                           const porpoise_column *columns,
                           size_t column_count,
                           uint32_t flags,
                           porpoise_operation **out);

// Frees an operation.
void porpoise_free_operation(porpoise_operation *operation);

// An empty batch. Atomic: either all operations take effect or none; otherwise each succeeds or fails by itself.
int porpoise_new_batch(int is_atomic, porpoise_batch **out);

// Frees a batch.
void porpoise_free_batch(porpoise_batch *batch);

// Removes the operations, and keeps the memory.
int porpoise_clear_batch(porpoise_batch *batch);

// Adds an operation on one row. The values are, in this order: those of the key's columns (not for INSERT and
// UPSERT), the version to compare with, those of the columns to set or to add, those to compare with. They are copied.
int porpoise_add(porpoise_batch *batch, const porpoise_operation *operation, const porpoise_value *row, size_t count);

// Executes a batch.
int porpoise_run(porpoise_connection *connection, const porpoise_batch *batch, porpoise_reply **out);

// Sends a batch; porpoise_receive() returns its reply. Several may be in flight, and are answered in order.
int porpoise_send(porpoise_connection *connection, const porpoise_batch *batch);

// Receives the reply to the oldest batch that was sent.
int porpoise_receive(porpoise_connection *connection, porpoise_reply **out);

// A page of a scan: a reply whose results are rows.
int porpoise_scan(porpoise_connection *connection,
                  const porpoise_table *table,
                  const porpoise_scan_request *request,
                  porpoise_reply **out);

// The number of results: one for each operation of the batch, or one for each row of the page.
size_t porpoise_result_count(const porpoise_reply *reply);

// A result of a reply.
int porpoise_get_result(const porpoise_reply *reply, size_t position, porpoise_result *out);

// The continuation of a scan, for its next page; empty after the last page. Valid until the reply is freed.
const uint8_t *porpoise_continuation(const porpoise_reply *reply, size_t *length);

// Frees a reply.
void porpoise_free_reply(porpoise_reply *reply);

// Begins a transaction of several batches.
int porpoise_begin(porpoise_connection *connection, int is_serializable);

// Commits the transaction.
int porpoise_commit(porpoise_connection *connection);

// Rolls the transaction back.
int porpoise_rollback(porpoise_connection *connection);

// Waits for an answer of the server.
int porpoise_ping(porpoise_connection *connection);

// Subscribes to changes of the rows of a table (docs/guide/native.md, "Changes of rows"). It connects by itself.
int porpoise_subscribe(const porpoise_target *to,
                       const porpoise_table *table,
                       const porpoise_subscribe_request *request,
                       porpoise_subscription **out);

// The next transaction, if there is one within `wait_ms`; otherwise *out is null. A broken connection is opened again within
// that time; after PORPOISE_BROKEN and PORPOISE_CONNECT the next call tries it again. Any other error ends the subscription:
// 1142 after REVOKE, 1236 if the log has lost the position, 1317 or 3169 after KILL.
int porpoise_next_transaction(porpoise_subscription *subscription,
                              uint32_t wait_ms,
                              porpoise_transaction **out);

// The position after the returned transactions, and after transactions of other rows up to the next one. Valid until
// the next call with the subscription.
const char *porpoise_subscription_position(const porpoise_subscription *subscription);

// Id of the subscription's connection, for KILL; 0 while there is none.
uint64_t porpoise_subscription_id(const porpoise_subscription *subscription);

// Ends and frees a subscription.
void porpoise_unsubscribe(porpoise_subscription *subscription);

// Properties of a transaction.
int porpoise_get_transaction(const porpoise_transaction *transaction, porpoise_transaction_info *out);

// The change at a position in a transaction, counted from 0.
int porpoise_get_change(const porpoise_transaction *transaction, size_t position, porpoise_change *out);

// Frees a transaction.
void porpoise_free_transaction(porpoise_transaction *transaction);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PORPOISE_H */
