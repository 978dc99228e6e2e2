/* Follows the changes of a table's rows, through restarts of the server:
 * follow HOST PORT USER PASSWORD DATABASE TABLE COUNT POSITION
 *
 * It prints each change, and the position behind each transaction, and ends after COUNT transactions. POSITION is `now`,
 * `first`, or one that was printed before: a program keeps it with what it makes of the changes, and continues there. The server
 * runs with --log-bin.
 */
#include "porpoise.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WAIT_MS 60000

static void check(int result, const char *what) {
    if (result != 0) {
        fprintf(stderr, "%s: %d %s\n", what, result, porpoise_error_message());
        exit(1);
    }
}

static void print_value(const porpoise_value *value) {
    switch (value->kind) {
    case PORPOISE_NULL: printf("NULL"); break;
    case PORPOISE_INT: printf("%" PRId64, value->int_value); break;
    case PORPOISE_UINT: printf("%" PRIu64, value->uint_value); break;
    case PORPOISE_DOUBLE: printf("%g", value->double_value); break;
    case PORPOISE_BYTES: printf("%.*s", (int)value->length, (const char *)value->bytes); break;
    default: printf("(not in the log)"); break;
    }
}

static void print_row(const porpoise_change *change, const porpoise_value *row) {
    for (size_t n = 0; n < change->column_count; n++) {
        printf(" %s=", change->columns[n].name);
        print_value(&row[n]);
    }
}

static void print_change(const porpoise_change *change) {
    switch (change->kind) {
    case PORPOISE_INSERTED:
        printf("+");
        print_row(change, change->after);
        break;
    case PORPOISE_UPDATED:
        printf("~");
        print_row(change, change->before);
        printf(" >");
        print_row(change, change->after);
        break;
    case PORPOISE_DELETED:
        printf("-");
        print_row(change, change->before);
        break;
    default:
        printf("! %s", change->definition);
        break;
    }
    printf("\n");
}

int main(int argc, char **argv) {
    if (argc != 9) {
        fprintf(stderr, "usage: follow HOST PORT USER PASSWORD DATABASE TABLE COUNT POSITION\n");
        return 2;
    }
    porpoise_target target = {.host = argv[1], .port = (uint16_t)atoi(argv[2]), .user = argv[3], .password = argv[4]};
    porpoise_connection *connection;
    porpoise_table *table;
    check(porpoise_connect(&target, &connection), "connect");
    check(porpoise_open_table(connection, argv[5], argv[6], &table), "table");
    porpoise_disconnect(connection);

    porpoise_subscribe_request request = {.position = argv[8]};
    porpoise_subscription *subscription;
    check(porpoise_subscribe(&target, table, &request, &subscription), "subscribe");
    porpoise_free_table(table);
    if (porpoise_subscription_id(subscription) == 0) return 1;
    printf("following\n");
    fflush(stdout);
    for (int left = atoi(argv[7]); left > 0;) {
        porpoise_transaction *transaction;
        int result = porpoise_next_transaction(subscription, WAIT_MS, &transaction);
        if (result == PORPOISE_BROKEN || result == PORPOISE_CONNECT) continue; /* The next call tries it again. */
        check(result, "next transaction");
        if (transaction == NULL) {
            fprintf(stderr, "nothing behind %s\n", porpoise_subscription_position(subscription));
            continue;
        }
        porpoise_transaction_info info;
        check(porpoise_get_transaction(transaction, &info), "transaction");
        for (size_t n = 0; n < info.change_count; n++) {
            porpoise_change change;
            check(porpoise_get_change(transaction, n, &change), "change");
            print_change(&change);
        }
        printf("= %s\n", info.position);
        fflush(stdout);
        porpoise_free_transaction(transaction);
        left--;
    }
    porpoise_unsubscribe(subscription);
    return 0;
}
