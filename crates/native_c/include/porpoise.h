/* Client of Porpoise's native protocol: rows by key in batches, scans, transactions.
 *
 * Link with -lporpoise_c. docs/guide/native.md has an introduction, examples/thousand_rows.c a program
 * that uses everything.
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

#ifdef __cplusplus
extern "C" {
#endif

/* The connection could not be opened. */
#define PORPOISE_CONNECT (-1)
/* The connection broke, and the request has had no effect. */
#define PORPOISE_BROKEN (-2)
/* The connection broke after a write was sent: it may or may not have been executed. */
#define PORPOISE_UNKNOWN_OUTCOME (-3)
/* The server does not speak this protocol. */
#define PORPOISE_PROTOCOL (-4)
/* Wrong arguments, or values that do not fit. */
#define PORPOISE_USAGE (-5)
/* A defect of the library. Objects used by the call must only be freed. */
#define PORPOISE_INTERNAL (-6)

typedef struct porpoise_connection porpoise_connection;
typedef struct porpoise_table porpoise_table;
typedef struct porpoise_operation porpoise_operation;
typedef struct porpoise_batch porpoise_batch;
typedef struct porpoise_reply porpoise_reply;

/* The text of the calling thread's last failure, valid until its next one. */
const char *porpoise_error_message(void);

/* ---- Connections ---- */

#define PORPOISE_TLS_OFF 0
#define PORPOISE_TLS_REQUIRED 1        /* The certificate is not verified. */
#define PORPOISE_TLS_VERIFY_CA 2       /* An authority has signed it. */
#define PORPOISE_TLS_VERIFY_IDENTITY 3 /* Also, it names the host. */

typedef struct {
    const char *host;        /* Host and port, or null. */
    uint16_t port;
    const char *socket;      /* Path of a Unix socket, or null. */
    const char *user;
    const char *password;    /* Null: none. */
    int tls;                 /* PORPOISE_TLS_... */
    const char *authorities; /* File with certificates (PEM), or null. */
    uint32_t timeout_ms;     /* Longest wait for the connection and for each answer; 0: 10 seconds, and no limit. */
} porpoise_target;

int porpoise_connect(const porpoise_target *target, porpoise_connection **out);
/* Closes and frees the connection. An open transaction is rolled back. */
void porpoise_disconnect(porpoise_connection *connection);
int porpoise_ping(porpoise_connection *connection);

int porpoise_begin(porpoise_connection *connection, int is_serializable);
int porpoise_commit(porpoise_connection *connection);
int porpoise_rollback(porpoise_connection *connection);

/* ---- Tables and operations ---- */

int porpoise_open_table(porpoise_connection *connection, const char *database, const char *name, porpoise_table **out);
void porpoise_free_table(porpoise_table *table);

#define PORPOISE_READ 1
#define PORPOISE_INSERT 2
#define PORPOISE_UPDATE 3
#define PORPOISE_UPSERT 4
#define PORPOISE_DELETE 5

#define PORPOISE_WITH_VERSION 1u      /* Returns the version of the row. */
#define PORPOISE_WITH_GENERATED_ID 2u /* Returns the id generated for an inserted row. */
#define PORPOISE_FOR_UPDATE 4u        /* Locks rows that are read until the transaction ends. */
#define PORPOISE_IF_VERSION 8u        /* Requires a version of the row. */
#define PORPOISE_REVERSE 16u          /* Scans from the end of the range (scans only). */

#define PORPOISE_COLUMN 0    /* Reads or sets the column. */
#define PORPOISE_ADD 1       /* Adds to the column. */
#define PORPOISE_IF_EQUALS 2 /* Requires a value of the column. */

typedef struct {
    const char *name;
    int used_as; /* PORPOISE_COLUMN, PORPOISE_ADD or PORPOISE_IF_EQUALS. */
} porpoise_column;

/* An operation on one row, found by the unique key `index`, or by the primary key if it is null. */
int porpoise_new_operation(const porpoise_table *table, int kind, const char *index, const porpoise_column *columns,
                           size_t column_count, uint32_t flags, porpoise_operation **out);
void porpoise_free_operation(porpoise_operation *operation);

/* ---- Values and batches ---- */

#define PORPOISE_NULL 0
#define PORPOISE_INT 1
#define PORPOISE_UINT 2
#define PORPOISE_DOUBLE 3
#define PORPOISE_BYTES 4 /* Strings and bytes; DECIMAL, dates and times as text. */

typedef struct {
    int kind; /* PORPOISE_NULL to PORPOISE_BYTES: selects the field that is used. */
    int64_t int_value;
    uint64_t uint_value;
    double double_value;
    const uint8_t *bytes;
    size_t length;
} porpoise_value;

/* An empty batch. Atomic: either all operations take effect or none; otherwise each succeeds or fails by itself. */
int porpoise_new_batch(int is_atomic, porpoise_batch **out);
void porpoise_free_batch(porpoise_batch *batch);
/* Removes the operations, and keeps the memory. */
int porpoise_clear_batch(porpoise_batch *batch);
/* Adds an operation on one row. The values are, in this order: those of the key's columns (not for INSERT and
 * UPSERT), the version to compare with, those of the columns to set or to add, those to compare with. They are
 * copied. */
int porpoise_add(porpoise_batch *batch, const porpoise_operation *operation, const porpoise_value *values,
                 size_t count);

/* Executes a batch. */
int porpoise_run(porpoise_connection *connection, const porpoise_batch *batch, porpoise_reply **out);
/* Sends a batch; porpoise_receive() returns its reply. Several may be in flight, and are answered in order. */
int porpoise_send(porpoise_connection *connection, const porpoise_batch *batch);
int porpoise_receive(porpoise_connection *connection, porpoise_reply **out);

/* ---- Scans ---- */

typedef struct {
    const porpoise_value *values; /* Values of the first columns of the index. */
    size_t count;                 /* 0: the end of the index. */
    int excludes;                 /* Keys that begin with the values are not in the range. */
} porpoise_bound;

typedef struct {
    const char *index; /* Null: the primary key. */
    const char *const *columns;
    size_t column_count;
    porpoise_bound lower, upper;
    uint32_t limit; /* Maximum number of rows of a page; 0: a page ends at about 1 MiB. */
    uint32_t flags; /* PORPOISE_WITH_VERSION, PORPOISE_REVERSE. */
    const uint8_t *continuation; /* That of the previous page; null for the first one. */
    size_t continuation_length;
} porpoise_scan_request;

/* A page of a scan: a reply whose results are rows. */
int porpoise_scan(porpoise_connection *connection, const porpoise_table *table, const porpoise_scan_request *request,
                  porpoise_reply **out);
/* Where the scan continues; of length 0 after the last page. Valid until the reply is freed. */
const uint8_t *porpoise_continuation(const porpoise_reply *reply, size_t *length);

/* ---- Replies ---- */

#define PORPOISE_OK 0
#define PORPOISE_NOT_FOUND 1        /* No row has the key. */
#define PORPOISE_CONDITION_FAILED 2 /* The row has another version or value. */
#define PORPOISE_FAILED 3           /* `error` and `message` say why. */
#define PORPOISE_ABORTED 4          /* Another operation of the atomic batch failed. */

typedef struct {
    int status;
    uint64_t version;             /* If the operation asks for it; otherwise 0. */
    uint64_t generated_id;        /* If the operation asks for it; otherwise 0. */
    const porpoise_value *values; /* Of a row that was read. Valid until the reply is freed. */
    size_t value_count;
    int error;                    /* MySQL's number. */
    const char *message;          /* Valid until the reply is freed. */
} porpoise_result;

/* The number of results: one for each operation of the batch, or one for each row of the page. */
size_t porpoise_result_count(const porpoise_reply *reply);
int porpoise_get_result(const porpoise_reply *reply, size_t position, porpoise_result *out);
void porpoise_free_reply(porpoise_reply *reply);

#ifdef __cplusplus
}
#endif

#endif
