/* libpq, loaded when an address needs it: linked normally, it and the libraries below it would slow
 * down every start. Calls of PQ… functions in this folder go through this table. */
#ifndef BELAY_STORE_LIBRARY_H
#define BELAY_STORE_LIBRARY_H

#include <libpq-fe.h>

#include <belay/base.h>

#define PG_LIBRARY_VERSION_MIN 140000 /* pipelines */

#define PG_FUNCTION_TABLE(X)                                                                       \
    X(libVersion)                                                                                  \
    X(conninfoParse)                                                                               \
    X(conninfoFree)                                                                                \
    X(connectStartParams)                                                                          \
    X(connectPoll)                                                                                 \
    X(finish)                                                                                      \
    X(status)                                                                                      \
    X(socket)                                                                                      \
    X(serverVersion)                                                                               \
    X(backendPID)                                                                                  \
    X(errorMessage)                                                                                \
    X(setNoticeReceiver)                                                                           \
    X(setnonblocking)                                                                              \
    X(enterPipelineMode)                                                                           \
    X(sendQueryParams)                                                                             \
    X(pipelineSync)                                                                                \
    X(flush)                                                                                       \
    X(consumeInput)                                                                                \
    X(isBusy)                                                                                      \
    X(getResult)                                                                                   \
    X(resultStatus)                                                                                \
    X(resultErrorField)                                                                            \
    X(ntuples)                                                                                     \
    X(nfields)                                                                                     \
    X(getisnull)                                                                                   \
    X(getvalue)                                                                                    \
    X(getlength)                                                                                   \
    X(clear)                                                                                       \
    X(notifies)                                                                                    \
    X(freemem)

struct pg_table {
#define PG_FUNCTION(name) __typeof__(PQ##name) *name;
    PG_FUNCTION_TABLE(PG_FUNCTION)
#undef PG_FUNCTION
};

/* Filled in once, by the first pg_load. */
extern struct pg_table pg_table;

/* Loads libpq once per process; called on the loop's stack. Returns an empty text, or why it cannot
 * be used. */
const char *pg_load(void);

#define PQlibVersion         pg_table.libVersion
#define PQconninfoParse      pg_table.conninfoParse
#define PQconninfoFree       pg_table.conninfoFree
#define PQconnectStartParams pg_table.connectStartParams
#define PQconnectPoll        pg_table.connectPoll
#define PQfinish             pg_table.finish
#define PQstatus             pg_table.status
#define PQsocket             pg_table.socket
#define PQserverVersion      pg_table.serverVersion
#define PQbackendPID         pg_table.backendPID
#define PQerrorMessage       pg_table.errorMessage
#define PQsetNoticeReceiver  pg_table.setNoticeReceiver
#define PQsetnonblocking     pg_table.setnonblocking
#define PQenterPipelineMode  pg_table.enterPipelineMode
#define PQsendQueryParams    pg_table.sendQueryParams
#define PQpipelineSync       pg_table.pipelineSync
#define PQflush              pg_table.flush
#define PQconsumeInput       pg_table.consumeInput
#define PQisBusy             pg_table.isBusy
#define PQgetResult          pg_table.getResult
#define PQresultStatus       pg_table.resultStatus
#define PQresultErrorField   pg_table.resultErrorField
#define PQntuples            pg_table.ntuples
#define PQnfields            pg_table.nfields
#define PQgetisnull          pg_table.getisnull
#define PQgetvalue           pg_table.getvalue
#define PQgetlength          pg_table.getlength
#define PQclear              pg_table.clear
#define PQnotifies           pg_table.notifies
#define PQfreemem            pg_table.freemem

#endif
