/* belay: the whole library. docs/embedding.md lists its stable parts. */
#ifndef BELAY_H
#define BELAY_H

#include <belay/agent.h>
#include <belay/base.h>
#include <belay/cell.h>
#include <belay/feature.h>
#include <belay/fiber.h>
#include <belay/fleet.h>
#include <belay/git.h>
#include <belay/json.h>
#include <belay/model.h>
#include <belay/proc.h>
#include <belay/record.h>
#include <belay/rpc.h>
#include <belay/runtime.h>
#include <belay/serve.h>
#include <belay/store.h>
#include <belay/tool.h>
#include <belay/turn.h>
#include <belay/value.h>
#include <belay/version.h>
#include <belay/wire.h>

#endif
