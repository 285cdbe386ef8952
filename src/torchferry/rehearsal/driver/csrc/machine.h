// A simulated machine with accelerators, for the driver library of any vendor: memory of the host in place of the
// cards', work that is done when it is asked for, processes of one machine as ranks. The vendor's own part gives these
// functions the vendor's names and numbers of errors.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FERRY_EXPORT __attribute__((visibility("default")))
#define FERRY_MOST_DEVICES 16

// How a call ended. The vendor's part translates it.
typedef enum {
  FERRY_OK = 0,
  FERRY_NO_CONTEXT,     // this thread has no device yet
  FERRY_BAD_DEVICE,     // there is no such device
  FERRY_BAD_ARGUMENT,   // a null pointer, a size that does not fit, a handle of nobody's
  FERRY_OUT_OF_MEMORY,  // the card has no room, or the host has none
  FERRY_NOT_SIMULATED,  // the card can, this cannot
  FERRY_MISMATCH,       // ranks ask for different things
  FERRY_TIMEOUT,        // a rank did not come
  FERRY_SYSTEM,         // the operating system refused
  FERRY_REMOTE,         // another rank failed
  FERRY_RECORDED,       // what is asked for cannot be, while this stream or event belongs to a graph that is recorded
  FERRY_UNRECORDED,     // a graph would depend on work that it does not have
  FERRY_UNJOINED,       // a stream left the graph and did not come back
} ferry_status;

// --- the machine (machine.c) ---

// What the machine is. Set once, before the vendor's plugin is loaded; texts are copied.
FERRY_EXPORT void ferry_set_number(const char* key, int64_t value);
FERRY_EXPORT void ferry_set_text(const char* key, const char* value);
int64_t ferry_number(const char* key, int64_t otherwise);
const char* ferry_text(const char* key, const char* otherwise);

int ferry_device_count(void);
ferry_status ferry_use_device(int device);
ferry_status ferry_current_device(int* device);
void ferry_set_default_device(int device);      // what a thread gets whose work needs a device before it has set one
ferry_status ferry_needed_device(int* device);  // the current device, or else that one, which is then the current one
int ferry_current_card(void);  // which of the machine's cards that is, whatever its number here; -1 for none
void* ferry_context_of(int device);
int ferry_device_of_context(const void* context);  // -1 for a pointer that is no context
double ferry_seconds(void);

// A row of `count` items of so many bytes, where it is full moved to twice the room; NULL, and the row as it was, where
// there is no memory.
void* ferry_grown(void* items, size_t count, size_t* room, size_t bytes);

// What went wrong last in this thread, for the vendor's function that tells it.
void ferry_say(const char* format, ...) __attribute__((format(printf, 1, 2)));
FERRY_EXPORT void ferry_say_text(const char* text);
const char* ferry_take_said(void);

// An entry point that is not simulated was called: its name is kept for the summary and told to the thread.
void ferry_note_refused(const char* name);
void ferry_note(const char* name);             // the same, of what went on here and may not on the card
FERRY_EXPORT const char* ferry_refused(void);  // "name calls\n" for each

// --- memory (memory.c) ---

ferry_status ferry_allocate(void** pointer, size_t bytes);
ferry_status ferry_free(void* pointer);
ferry_status ferry_allocate_host(void** pointer, size_t bytes);
ferry_status ferry_free_host(void* pointer);
ferry_status ferry_register_host(void* pointer, size_t bytes);
ferry_status ferry_unregister_host(void* pointer);
ferry_status ferry_memory_info(size_t* available, size_t* total);
FERRY_EXPORT int64_t ferry_memory_used(int device);
FERRY_EXPORT int64_t ferry_memory_peak(int device);
FERRY_EXPORT int64_t ferry_memory_exhausted(int device);  // how often it had no room
FERRY_EXPORT void ferry_fail_allocation(int64_t number);  // counted from 1, from now; 0 is none
// A copy. It is refused, with the pointer named, where one side lies in a device's block and does not fit there.
ferry_status ferry_copy(void* to, size_t room, const void* from, size_t bytes);
ferry_status ferry_fill(void* to, size_t room, int value, size_t bytes);

// With a bit that is set in all of the host's addresses: device memory is given out by addresses without it, at which
// the host has nothing. Before anything is allocated.
FERRY_EXPORT void ferry_keep_addresses_apart(uintptr_t bit);
void* ferry_host_address(const void* pointer);  // of device memory; any other address as it is

// Memory of a device that another process of this machine maps: where it is, as text, and the way back.
ferry_status ferry_export_memory(const void* pointer, size_t bytes, char* key, size_t room);
ferry_status ferry_import_memory(void** pointer, const char* key);
ferry_status ferry_close_import(const char* key);

typedef enum { FERRY_UNKNOWN_MEMORY, FERRY_HOST_MEMORY, FERRY_DEVICE_MEMORY } ferry_kind;
ferry_kind ferry_kind_of(const void* pointer, int* device);

// Addresses that are reserved first and get memory later.
ferry_status ferry_reserve(void** address, size_t bytes, size_t alignment);
ferry_status ferry_unreserve(void* address);
ferry_status ferry_make_physical(void** handle, size_t bytes, int device);
ferry_status ferry_free_physical(void* handle);
ferry_status ferry_map(void* address, size_t bytes, size_t offset, void* handle);
ferry_status ferry_unmap(void* address);

// --- streams and events (streams.c): everything is done when the call returns ---

typedef struct ferry_stream ferry_stream;
typedef struct ferry_event ferry_event;

ferry_status ferry_make_stream(ferry_stream** stream);
ferry_status ferry_end_stream(ferry_stream* stream);
int32_t ferry_stream_number(const ferry_stream* stream);  // 0 is the default stream
ferry_status ferry_make_event(ferry_event** event);
void ferry_set_event_flags(ferry_event* event, uint32_t flags);  // the vendor's own, kept with the event
uint32_t ferry_event_flags(const ferry_event* event);
ferry_status ferry_end_event(ferry_event* event);
ferry_status ferry_record(ferry_event* event, const ferry_stream* stream);
ferry_status ferry_wait(const ferry_stream* stream, const ferry_event* event);

// Whether the host may ask for a stream, an event or the current device, or wait: not while they are recorded.
ferry_status ferry_ask_stream(const ferry_stream* stream);
ferry_status ferry_ask_event(const ferry_event* event);
ferry_status ferry_ask_device(void);
ferry_status ferry_elapsed(const ferry_event* start, const ferry_event* end, double* milliseconds);
ferry_status ferry_time_of(const ferry_event* event, uint64_t* microseconds);

// Waits of the host's: the same, told to whoever watches the order.
ferry_status ferry_wait_for_stream(const ferry_stream* stream);
ferry_status ferry_wait_for_event(const ferry_event* event);
ferry_status ferry_wait_for_device(void);

// What orders streams, and what the driver's own libraries do with memory, is told to one who looks for races. The
// numbers are those of `csrc/stream_order.h`.
enum {
  FERRY_RECORDED_EVENT = 1,  // event, stream
  FERRY_STREAM_WAITS = 2,    // stream, event
  FERRY_HOST_HAS_STREAM = 3,
  FERRY_HOST_HAS_EVENT = 4,
  FERRY_HOST_HAS_DEVICE = 5,  // its number
  FERRY_EVENT_GONE = 6,
  FERRY_LIBRARY_READS = 7,  // stream, memory, bytes
  FERRY_LIBRARY_WRITES = 8,
};
typedef void (*ferry_order_watcher)(int what, const void* first, const void* second, size_t bytes);
FERRY_EXPORT void ferry_watch_order(ferry_order_watcher watcher);
void ferry_tell_order(int what, const void* first, const void* second, size_t bytes);

// --- graphs (graphs.c): work that is recorded, and done when the graph is run ---

typedef struct ferry_graph ferry_graph;
typedef bool (*ferry_work)(void* argument);  // false: it failed, and said why
typedef void (*ferry_drop)(void* argument);

// The number of the graph into which work is recorded; 0 while none is: whoever does some looks there.
FERRY_EXPORT const atomic_int* ferry_recording(void);
FERRY_EXPORT void ferry_watch_recording(void (*begins)(void), void (*ends)(void));  // called before each
FERRY_EXPORT bool ferry_record_work(ferry_work run, ferry_drop drop, void* argument, const ferry_stream* stream);
bool ferry_record_copy(ferry_work run, const void* argument, size_t bytes, const ferry_stream* stream);

// Whether a stream belongs to that graph: recording began on it, or it waited for an event of a stream that belongs.
FERRY_EXPORT bool ferry_records(const ferry_stream* stream);
ferry_graph* ferry_recorded(void);
ferry_status ferry_begin_graph(const ferry_stream* stream);
ferry_status ferry_end_recording(const ferry_stream* stream, ferry_graph** graph);
ferry_status ferry_run_graph(const ferry_graph* graph);
ferry_status ferry_drop_graph(ferry_graph* graph);
uint32_t ferry_graph_number(const ferry_graph* graph);

// What an event is in a graph that is recorded: a mark on its stream, 0 where that belongs to none; and another stream
// that waits for it.
uint32_t ferry_mark(const ferry_stream* stream);
bool ferry_is_marked(uint32_t mark);  // in the graph that is recorded now
int ferry_recorded_device(void);      // on which that began; -1 while none is recorded
ferry_status ferry_wait_for_mark(const ferry_stream* stream, uint32_t mark, bool happened);

// --- ranks (ranks.c): processes of one machine that compute together, over a file in memory ---

// Types of elements; the vendor's part translates its own.
typedef enum {
  FERRY_INT8,
  FERRY_INT16,
  FERRY_INT32,
  FERRY_INT64,
  FERRY_UINT8,
  FERRY_UINT16,
  FERRY_UINT32,
  FERRY_UINT64,
  FERRY_FLOAT16,
  FERRY_BFLOAT16,
  FERRY_FLOAT32,
  FERRY_FLOAT64,
  FERRY_BYTES,  // moved, never added
  FERRY_NO_TYPE,
} ferry_type;
typedef enum { FERRY_SUM, FERRY_PRODUCT, FERRY_MAX, FERRY_MIN, FERRY_NO_REDUCTION } ferry_reduction;

typedef struct ferry_group ferry_group;

typedef struct {
  bool sends;
  void* buffer;
  size_t bytes;
  uint32_t peer;
} ferry_message;

size_t ferry_size_of(ferry_type type);
FERRY_EXPORT void ferry_reduce_into(void* into, const void* from, uint64_t count, ferry_type type,
                                    ferry_reduction reduction);
void ferry_new_group_name(char* name, size_t room);
ferry_status ferry_join(ferry_group** group, const char* name, const char* label, uint32_t ranks, uint32_t rank);
ferry_status ferry_leave(ferry_group* group);
uint32_t ferry_ranks(const ferry_group* group);
uint32_t ferry_rank(const ferry_group* group);
const char* ferry_label(const ferry_group* group);
const char* ferry_group_name(const ferry_group* group);
ferry_status ferry_group_failure(const ferry_group* group);

// `operation` is the vendor's name of the call, for messages; all counts are in elements.
ferry_status ferry_all_reduce(ferry_group* group, const char* operation, const void* from, void* to, uint64_t count,
                              ferry_type type, ferry_reduction reduction);
ferry_status ferry_reduce(ferry_group* group, const char* operation, const void* from, void* to, uint64_t count,
                          ferry_type type, ferry_reduction reduction, uint32_t root);
ferry_status ferry_broadcast(ferry_group* group, const char* operation, void* buffer, uint64_t count, ferry_type type,
                             uint32_t root);
ferry_status ferry_all_gather(ferry_group* group, const char* operation, const void* from, void* to, uint64_t count,
                              ferry_type type);
ferry_status ferry_reduce_scatter(ferry_group* group, const char* operation, const void* from, void* to, uint64_t count,
                                  ferry_type type, ferry_reduction reduction);
ferry_status ferry_scatter(ferry_group* group, const char* operation, const void* from, void* to, uint64_t count,
                           ferry_type type, uint32_t root);
ferry_status ferry_barrier(ferry_group* group, const char* operation);
// Messages to and from peers, all under way at once.
ferry_status ferry_exchange(ferry_group* group, const char* operation, ferry_message* messages, size_t count);
