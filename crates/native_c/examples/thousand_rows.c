/* Writes 1,000 rows in one batch, reads them in another, and calls every function of porpoise.h:
 * thousand_rows HOST PORT USER PASSWORD DATABASE
 *
 * The table is made by SQL before:
 * create table thousand (id bigint primary key, name varchar(40), n int not null default 0, day date)
 */
#include "porpoise.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 1000

static void check(int result, const char *what) {
    if (result != 0) {
        fprintf(stderr, "%s: %d %s\n", what, result, porpoise_error_message());
        exit(1);
    }
}

static void expect(int is_true, const char *what) {
    if (!is_true) {
        fprintf(stderr, "unexpected: %s\n", what);
        exit(1);
    }
}

static porpoise_value integer(int64_t number) {
    porpoise_value value = {.kind = PORPOISE_INT, .int_value = number};
    return value;
}

static porpoise_value text(const char *text) {
    porpoise_value value = {.kind = PORPOISE_BYTES, .bytes = (const uint8_t *)text, .length = strlen(text)};
    return value;
}

static porpoise_operation *operation(const porpoise_table *table, int kind, const porpoise_column *columns,
                                     size_t count, uint32_t flags) {
    porpoise_operation *made;
    check(porpoise_new_operation(table, kind, NULL, columns, count, flags, &made), "operation");
    return made;
}

static porpoise_batch *new_batch(int is_atomic) {
    porpoise_batch *batch;
    check(porpoise_new_batch(is_atomic, &batch), "batch");
    return batch;
}

static void add(porpoise_batch *batch, const porpoise_operation *operation, const porpoise_value *values,
                size_t count) {
    check(porpoise_add(batch, operation, values, count), "add");
}

/* Runs a batch of one operation, and copies its result without values. */
static porpoise_result run_one(porpoise_connection *connection, porpoise_batch *batch) {
    porpoise_reply *reply;
    porpoise_result result;
    check(porpoise_run(connection, batch, &reply), "run");
    expect(porpoise_result_count(reply) == 1, "one result");
    check(porpoise_get_result(reply, 0, &result), "result");
    porpoise_free_reply(reply);
    check(porpoise_clear_batch(batch), "clear");
    return result;
}

static void write_rows(porpoise_connection *connection, const porpoise_table *table) {
    const porpoise_column columns[] = {{"id", PORPOISE_COLUMN}, {"name", PORPOISE_COLUMN}, {"day", PORPOISE_COLUMN}};
    porpoise_operation *upsert = operation(table, PORPOISE_UPSERT, columns, 3, PORPOISE_WITH_CREATED);
    porpoise_batch *batch = new_batch(1);
    char name[32];
    for (int id = 0; id < ROWS; id++) {
        snprintf(name, sizeof name, "name %d", id);
        porpoise_value row[] = {integer(id), text(name), text("2026-11-24")};
        if (id == 7) row[2].kind = PORPOISE_NULL;
        add(batch, upsert, row, 3);
    }
    porpoise_reply *reply;
    check(porpoise_run(connection, batch, &reply), "write");
    for (size_t n = 0; n < porpoise_result_count(reply); n++) {
        porpoise_result result;
        check(porpoise_get_result(reply, n, &result), "result");
        expect(result.status == PORPOISE_OK && result.is_new, "a row is written");
    }
    porpoise_free_reply(reply);
    porpoise_free_batch(batch);
    porpoise_free_operation(upsert);
}

static int read_rows(porpoise_connection *connection, const porpoise_table *table) {
    const porpoise_column columns[] = {{"name", PORPOISE_COLUMN}, {"day", PORPOISE_COLUMN}};
    porpoise_operation *read = operation(table, PORPOISE_READ, columns, 2, PORPOISE_WITH_VERSION);
    porpoise_batch *batch = new_batch(0);
    for (int id = 0; id <= ROWS; id++) {
        porpoise_value key = integer(id);
        add(batch, read, &key, 1);
    }
    /* Two batches in flight. */
    check(porpoise_send(connection, batch), "send");
    check(porpoise_send(connection, batch), "send");
    int found = 0;
    for (int round = 0; round < 2; round++) {
        porpoise_reply *reply;
        check(porpoise_receive(connection, &reply), "receive");
        expect(porpoise_result_count(reply) == ROWS + 1, "a result for each operation");
        found = 0;
        for (int id = 0; id < ROWS; id++) {
            porpoise_result row;
            char name[32];
            int length = snprintf(name, sizeof name, "name %d", id);
            check(porpoise_get_result(reply, (size_t)id, &row), "row");
            expect(row.status == PORPOISE_OK && row.version != 0 && row.value_count == 2, "a row");
            expect(row.values[0].kind == PORPOISE_BYTES && row.values[0].length == (size_t)length
                       && memcmp(row.values[0].bytes, name, (size_t)length) == 0, "its name");
            expect(id == 7 ? row.values[1].kind == PORPOISE_NULL
                           : memcmp(row.values[1].bytes, "2026-11-24", 10) == 0, "its day");
            found++;
        }
        porpoise_result absent;
        check(porpoise_get_result(reply, ROWS, &absent), "absent row");
        expect(absent.status == PORPOISE_NOT_FOUND, "a row that does not exist");
        expect(porpoise_get_result(reply, ROWS + 1, &absent) == PORPOISE_USAGE, "a result too many");
        porpoise_free_reply(reply);
    }
    porpoise_free_batch(batch);
    porpoise_free_operation(read);
    return found;
}

/* Conditions, failures, a transaction. */
static void change_rows(porpoise_connection *connection, const porpoise_table *table) {
    const porpoise_column columns[] = {{"n", PORPOISE_ADD}, {"name", PORPOISE_IF_EQUALS}};
    const porpoise_column id[] = {{"id", PORPOISE_COLUMN}};
    porpoise_operation *count = operation(table, PORPOISE_UPDATE, columns, 2, PORPOISE_WITH_VERSION);
    porpoise_operation *insert = operation(table, PORPOISE_INSERT, id, 1, 0);
    porpoise_operation *erase = operation(table, PORPOISE_DELETE, NULL, 0, PORPOISE_IF_VERSION);
    porpoise_batch *batch = new_batch(0);

    porpoise_value right[] = {integer(1), integer(5), text("name 1")};
    porpoise_value wrong[] = {integer(1), integer(5), text("name 2")};
    add(batch, count, right, 3);
    porpoise_result changed = run_one(connection, batch);
    expect(changed.status == PORPOISE_OK && changed.version != 0, "an UPDATE");
    add(batch, count, wrong, 3);
    expect(run_one(connection, batch).status == PORPOISE_CONDITION_FAILED, "a condition");

    porpoise_value key = integer(1);
    add(batch, insert, &key, 1);
    porpoise_result duplicate = run_one(connection, batch);
    expect(duplicate.status == PORPOISE_FAILED && duplicate.error == 1062, "a duplicate");
    expect(porpoise_add(batch, insert, right, 3) == PORPOISE_USAGE, "too many values");

    check(porpoise_begin(connection, 0), "begin");
    porpoise_value versioned[] = {integer(1), {.kind = PORPOISE_UINT, .uint_value = changed.version}};
    add(batch, erase, versioned, 2);
    expect(run_one(connection, batch).status == PORPOISE_OK, "a DELETE");
    check(porpoise_rollback(connection), "rollback");
    check(porpoise_begin(connection, 1), "begin");
    check(porpoise_commit(connection), "commit");

    porpoise_free_batch(batch);
    porpoise_free_operation(erase);
    porpoise_free_operation(insert);
    porpoise_free_operation(count);
}

static int scan_rows(porpoise_connection *connection, const porpoise_table *table) {
    const char *const columns[] = {"id"};
    porpoise_value from = integer(100), to = integer(900);
    porpoise_scan_request request = {.columns = columns, .column_count = 1, .lower = {&from, 1, 0},
                                     .upper = {&to, 1, 1}, .limit = 300, .flags = PORPOISE_REVERSE};
    int rows = 0;
    int64_t expected = 899;
    porpoise_reply *previous = NULL;
    do {
        porpoise_reply *page;
        check(porpoise_scan(connection, table, &request, &page), "scan");
        porpoise_free_reply(previous);
        previous = page;
        for (size_t n = 0; n < porpoise_result_count(page); n++, rows++, expected--) {
            porpoise_result row;
            check(porpoise_get_result(page, n, &row), "row of a page");
            expect(row.values[0].int_value == expected, "rows in order");
        }
        request.continuation = porpoise_continuation(page, &request.continuation_length);
    } while (request.continuation_length > 0);
    porpoise_free_reply(previous);
    return rows;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: thousand_rows HOST PORT USER PASSWORD DATABASE\n");
        return 2;
    }
    porpoise_target target = {.host = argv[1], .port = (uint16_t)atoi(argv[2]), .user = argv[3], .password = argv[4]};
    porpoise_connection *connection;
    check(porpoise_connect(&target, &connection), "connect");
    check(porpoise_ping(connection), "ping");
    porpoise_table *table;
    expect(porpoise_open_table(connection, argv[5], "none", &table) == 1146, "no such table");
    expect(porpoise_open_table(connection, NULL, "thousand", &table) == PORPOISE_USAGE, "a null pointer");
    check(porpoise_open_table(connection, argv[5], "thousand", &table), "table");

    write_rows(connection, table);
    int read = read_rows(connection, table);
    change_rows(connection, table);
    int scanned = scan_rows(connection, table);
    printf("read %d rows, scanned %d\n", read, scanned);

    porpoise_free_table(table);
    porpoise_disconnect(connection);
    target.tls = PORPOISE_TLS_VERIFY_CA;
    target.authorities = "/nonexistent";
    expect(porpoise_connect(&target, &connection) == PORPOISE_CONNECT, "a missing file of authorities");
    return 0;
}
