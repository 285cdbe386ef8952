// Memory of the devices and pinned memory of the host: both are memory of the host, and counted.
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine.h"

#define ALIGNMENT 512  // of what the drivers give
#define HUGE_PAGE ((size_t)2 << 20)
#define MOST_TRIES 3  // of a plugin that needs memory: at first, without its oldest blocks, without all of them

typedef enum { DEVICE_BLOCK, HOST_BLOCK, REGISTERED_BLOCK, RESERVED_BLOCK } block_kind;

// A range of addresses that the driver knows; kept in their order.
typedef struct {
  char* start;
  size_t bytes;
  int device;
  block_kind kind;
  int64_t place;  // in the file of the devices' memory; NO_PLACE, or INHERITED from the process that forked this one
} block;

static block* blocks;
static size_t block_count, block_room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Device memory is known to the plugin by other addresses than the host's, where a bit is set here: nothing lies there.
static uintptr_t address_bit;

void ferry_keep_addresses_apart(uintptr_t bit) { address_bit = bit; }

// From one of the two addresses of device memory to the other.
static void* other_address(const void* address) { return (void*)((uintptr_t)address ^ address_bit); }

static int64_t used[FERRY_MOST_DEVICES], peak[FERRY_MOST_DEVICES], exhausted[FERRY_MOST_DEVICES];
static int64_t failing_allocation;
static int failing_tries;
static size_t failing_bytes;  // of the allocation that was failed last: a plugin frees what it can, and asks again

// Index of the first block that begins behind `pointer`. The lock is held.
static size_t behind(const void* pointer) {
  size_t low = 0, high = block_count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (blocks[middle].start <= (const char*)pointer) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The block in which `pointer` lies. The lock is held.
static block* block_of(const void* pointer) {
  const size_t index = behind(pointer);
  if (index == 0) {
    return NULL;
  }
  block* found = &blocks[index - 1];
  return (size_t)((const char*)pointer - found->start) < found->bytes ? found : NULL;
}

static bool keep(block entry) {
  block* grown = ferry_grown(blocks, block_count, &block_room, sizeof *grown);
  if (grown == NULL) {
    return false;
  }
  blocks = grown;
  const size_t index = behind(entry.start);
  memmove(blocks + index + 1, blocks + index, (block_count - index) * sizeof *blocks);
  blocks[index] = entry;
  block_count++;
  return true;
}

static void drop(const block* entry) {
  const size_t index = (size_t)(entry - blocks);
  memmove(blocks + index, blocks + index + 1, (block_count - index - 1) * sizeof *blocks);
  block_count--;
}

// The lock is held.
static ferry_status charge(int device, size_t bytes) {
  if (failing_allocation > 0 && --failing_allocation == 0) {
    failing_bytes = bytes;
    failing_tries = MOST_TRIES;
  }
  if (failing_tries > 0 && bytes == failing_bytes) {
    failing_tries--;
    exhausted[device]++;
    ferry_say("out of memory, as ordered");
    return FERRY_OUT_OF_MEMORY;
  }
  failing_tries = 0;
  const int64_t capacity = ferry_number("memory", 0);
  if (capacity > 0 && (bytes > (size_t)capacity || used[device] > capacity - (int64_t)bytes)) {
    exhausted[device]++;
    ferry_say("device %d has %lld bytes, %lld of them in use: no room for %zu", device, (long long)capacity,
              (long long)used[device], bytes);
    return FERRY_OUT_OF_MEMORY;
  }
  used[device] += (int64_t)bytes;
  if (used[device] > peak[device]) {
    peak[device] = used[device];
  }
  return FERRY_OK;
}

static size_t rounded(size_t bytes, size_t unit) {
  if (bytes == 0) {
    return unit;
  }
  return bytes > SIZE_MAX - unit ? bytes : (bytes + unit - 1) / unit * unit;
}

#define FILE_NAME "ferry-devices"

// All memory of the devices is one file without a name, so that other processes can map parts of it. No place in it is
// used twice: what is freed becomes a hole.
enum { NO_PLACE = -1, INHERITED = -2 };
static int memory_file = -1;
static int64_t file_end;

// In a process that was forked: the file is its parent's, and what is freed here must not become a hole there.
static void forget_file(void) {
  for (size_t index = 0; index < block_count; index++) {
    if (blocks[index].place >= 0) {
      blocks[index].place = INHERITED;
    }
  }
  memory_file = -1;
  file_end = 0;
}

// The lock is held.
static void* map_place(size_t bytes, int64_t* place) {
  *place = NO_PLACE;
  if (memory_file < 0) {
    static bool forks_are_seen;
    forks_are_seen = forks_are_seen || pthread_atfork(NULL, NULL, forget_file) == 0;
    memory_file = forks_are_seen ? memfd_create(FILE_NAME, MFD_CLOEXEC) : -1;
  }
  const int64_t whole = ((int64_t)bytes + 4095) / 4096 * 4096;
  if (memory_file < 0 || ftruncate(memory_file, file_end + whole) != 0) {
    return NULL;
  }
  void* start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file, file_end);
  if (start == MAP_FAILED) {
    return NULL;
  }
  if (bytes >= HUGE_PAGE) {  // as plugins ask for it: they divide it up themselves, and use all of it
    (void)madvise(start, bytes, MADV_HUGEPAGE);
  }
  *place = file_end;
  file_end += whole;
  return start;
}

static void unmap_place(void* start, size_t bytes, int64_t place) {
  munmap(start, bytes);
  (void)fallocate(memory_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place, ((off_t)bytes + 4095) / 4096 * 4096);
}

static ferry_status allocate(void** pointer, size_t bytes, int device, block_kind kind) {
  void* start = NULL;
  ferry_status status = FERRY_OK;
  pthread_mutex_lock(&lock);
  if (kind == DEVICE_BLOCK) {
    status = charge(device, bytes);
  }
  if (status == FERRY_OK) {
    int64_t place = NO_PLACE;
    if (kind == DEVICE_BLOCK) {
      start = map_place(bytes, &place);
    }
    // Memory of the host begins with a page: it may be registered for a device from there on, as long as it was asked
    // for.
    const size_t alignment = kind == HOST_BLOCK ? (size_t)sysconf(_SC_PAGESIZE) : ALIGNMENT;
    if (start == NULL && posix_memalign(&start, alignment, bytes) != 0) {
      ferry_say("the machine has no %zu bytes", bytes);
      status = FERRY_OUT_OF_MEMORY;
    } else if (!keep((block){kind == DEVICE_BLOCK ? other_address(start) : start, bytes, device, kind, place})) {
      if (place < 0) {
        free(start);
      } else {
        unmap_place(start, bytes, place);
      }
      status = FERRY_OUT_OF_MEMORY;
    }
    if (status != FERRY_OK && kind == DEVICE_BLOCK) {
      used[device] -= (int64_t)bytes;
    }
  }
  pthread_mutex_unlock(&lock);
  *pointer = status != FERRY_OK ? NULL : kind == DEVICE_BLOCK ? other_address(start) : start;
  return status;
}

static ferry_status release(void* pointer, block_kind kind, bool frees) {
  pthread_mutex_lock(&lock);
  const block* entry = block_of(pointer);
  const bool known = entry != NULL && entry->start == pointer && entry->kind == kind;
  block released = {0};
  if (known) {
    released = *entry;
    if (kind == DEVICE_BLOCK) {
      used[entry->device] -= (int64_t)entry->bytes;
    }
    drop(entry);
  }
  pthread_mutex_unlock(&lock);
  if (!known) {
    ferry_say("%p was never given out, or was freed before", pointer);
    return FERRY_BAD_ARGUMENT;
  }
  void* start = kind == DEVICE_BLOCK ? other_address(pointer) : pointer;
  if (frees && kind == DEVICE_BLOCK && released.place >= 0) {
    unmap_place(start, released.bytes, released.place);
  } else if (frees && released.place == INHERITED) {
    munmap(start, released.bytes);
  } else if (frees) {
    free(start);
  }
  return FERRY_OK;
}

ferry_status ferry_allocate(void** pointer, size_t bytes) {
  int device = 0;
  const ferry_status status = ferry_needed_device(&device);
  if (pointer == NULL || status != FERRY_OK) {
    return pointer == NULL ? FERRY_BAD_ARGUMENT : status;
  }
  return allocate(pointer, rounded(bytes, ALIGNMENT), device, DEVICE_BLOCK);
}

ferry_status ferry_free(void* pointer) { return pointer == NULL ? FERRY_OK : release(pointer, DEVICE_BLOCK, true); }

ferry_status ferry_allocate_host(void** pointer, size_t bytes) {
  return pointer == NULL ? FERRY_BAD_ARGUMENT : allocate(pointer, rounded(bytes, ALIGNMENT), 0, HOST_BLOCK);
}

ferry_status ferry_free_host(void* pointer) { return pointer == NULL ? FERRY_OK : release(pointer, HOST_BLOCK, true); }

ferry_status ferry_register_host(void* pointer, size_t bytes) {
  if (pointer == NULL || bytes == 0) {
    return FERRY_BAD_ARGUMENT;
  }
  pthread_mutex_lock(&lock);
  const block* entry = block_of(pointer);
  const bool own = entry != NULL && entry->kind == HOST_BLOCK;  // a part of what was allocated here: a device sees it
  const bool kept = own || (entry == NULL && keep((block){pointer, bytes, 0, REGISTERED_BLOCK, -1}));
  pthread_mutex_unlock(&lock);
  return kept ? FERRY_OK : FERRY_BAD_ARGUMENT;
}

ferry_status ferry_unregister_host(void* pointer) {
  pthread_mutex_lock(&lock);
  const block* entry = block_of(pointer);
  const bool own = entry != NULL && entry->kind == HOST_BLOCK;
  pthread_mutex_unlock(&lock);
  return own ? FERRY_OK : release(pointer, REGISTERED_BLOCK, false);
}

ferry_status ferry_memory_info(size_t* available, size_t* total) {
  int device = 0;
  const ferry_status status = ferry_needed_device(&device);
  if (status != FERRY_OK) {
    return status;
  }
  const int64_t capacity = ferry_number("memory", 0);
  const int64_t whole = capacity > 0 ? capacity : INT64_C(1) << 40;  // not known, not limited
  pthread_mutex_lock(&lock);
  *total = (size_t)whole;
  *available = (size_t)(whole > used[device] ? whole - used[device] : 0);
  pthread_mutex_unlock(&lock);
  return FERRY_OK;
}

static int64_t read_locked(const int64_t* counts, int device) {
  if (device < 0 || device >= FERRY_MOST_DEVICES) {
    return 0;
  }
  pthread_mutex_lock(&lock);
  const int64_t value = counts[device];
  pthread_mutex_unlock(&lock);
  return value;
}

int64_t ferry_memory_used(int device) { return read_locked(used, device); }
int64_t ferry_memory_peak(int device) { return read_locked(peak, device); }
int64_t ferry_memory_exhausted(int device) { return read_locked(exhausted, device); }

void ferry_fail_allocation(int64_t number) {
  pthread_mutex_lock(&lock);
  failing_allocation = number;
  pthread_mutex_unlock(&lock);
}

ferry_kind ferry_kind_of(const void* pointer, int* device) {
  pthread_mutex_lock(&lock);
  const block* entry = block_of(pointer);
  ferry_kind kind = FERRY_UNKNOWN_MEMORY;
  if (entry != NULL) {
    kind = entry->kind == DEVICE_BLOCK || entry->kind == RESERVED_BLOCK ? FERRY_DEVICE_MEMORY : FERRY_HOST_MEMORY;
    *device = entry->device;
  }
  pthread_mutex_unlock(&lock);
  return kind;
}

void* ferry_host_address(const void* pointer) {
  if (address_bit == 0) {
    return (void*)pointer;
  }
  int device = 0;
  return ferry_kind_of(pointer, &device) == FERRY_DEVICE_MEMORY ? other_address(pointer) : (void*)pointer;
}

// Whether `bytes` from `pointer` on stay inside of the block that they begin in. What nobody knows is the host's own.
static bool fits(const void* pointer, size_t bytes) {
  pthread_mutex_lock(&lock);
  const block* entry = block_of(pointer);
  const bool inside = entry == NULL || entry->bytes - (size_t)((const char*)pointer - entry->start) >= bytes;
  pthread_mutex_unlock(&lock);
  if (!inside) {
    ferry_say("%zu bytes from %p on leave the memory that was given out there", bytes, pointer);
  }
  return inside;
}

ferry_status ferry_copy(void* to, size_t room, const void* from, size_t bytes) {
  if (bytes == 0) {
    return FERRY_OK;
  }
  if (to == NULL || from == NULL || bytes > room || !fits(to, bytes) || !fits(from, bytes)) {
    return FERRY_BAD_ARGUMENT;
  }
  memmove(ferry_host_address(to), ferry_host_address(from), bytes);
  return FERRY_OK;
}

ferry_status ferry_fill(void* to, size_t room, int value, size_t bytes) {
  if (bytes == 0) {
    return FERRY_OK;
  }
  if (to == NULL || bytes > room || !fits(to, bytes)) {
    return FERRY_BAD_ARGUMENT;
  }
  memset(ferry_host_address(to), value, bytes);
  return FERRY_OK;
}

// --- memory of another process ---

typedef struct {
  char* start;
  size_t bytes;
  char key[64];
} imported_part;

static imported_part imports[4096];
static size_t import_count;

ferry_status ferry_export_memory(const void* pointer, size_t bytes, char* key, size_t room) {
  pthread_mutex_lock(&lock);
  const block* entry = block_of(pointer);
  const bool shared = entry != NULL && entry->kind == DEVICE_BLOCK && entry->place >= 0;
  int written = -1;
  if (shared) {
    const int64_t inside = (const char*)pointer - entry->start;
    const size_t rest = entry->bytes - (size_t)inside;
    written = inside % 4096 != 0
                  ? -1
                  : snprintf(key, room, "%d %d %lld %zu %d", (int)getpid(), memory_file,
                             (long long)(entry->place + inside), bytes < rest ? bytes : rest, entry->device);
  }
  pthread_mutex_unlock(&lock);
  if (written < 0 || (size_t)written >= room) {
    ferry_say("%p is no memory that another process can be given", pointer);
    return FERRY_BAD_ARGUMENT;
  }
  return FERRY_OK;
}

// Whether what was opened is the memory of some process's devices: a key can name any file of the user's.
static bool is_memory_of_devices(int opened) {
  char link[64], target[64] = "";
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", opened);
  static const char wanted[] = "/memfd:" FILE_NAME;
  return opened >= 0 && readlink(link, target, sizeof target - 1) > 0 &&
         strncmp(target, wanted, sizeof wanted - 1) == 0;
}

ferry_status ferry_import_memory(void** pointer, const char* key) {
  int process = 0, file = -1, device = 0;
  long long place = -1;
  size_t bytes = 0;
  char path[64];
  if (pointer == NULL || sscanf(key, "%d %d %lld %zu %d", &process, &file, &place, &bytes, &device) != 5 ||
      process <= 0 || file < 0 || place < 0 || bytes == 0 || device < 0 || device >= FERRY_MOST_DEVICES) {
    ferry_say("this is no key of memory");
    return FERRY_BAD_ARGUMENT;
  }
  (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", process, file);
  const int opened = open(path, O_RDWR | O_CLOEXEC);
  struct stat about;
  void* start = MAP_FAILED;
  if (is_memory_of_devices(opened) && fstat(opened, &about) == 0 && S_ISREG(about.st_mode) &&
      (size_t)about.st_size >= bytes && place <= (long long)((size_t)about.st_size - bytes)) {
    start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened, (off_t)place);
  }
  if (opened >= 0) {
    close(opened);
  }
  if (start == MAP_FAILED) {
    ferry_say("process %d does not hold the memory that it sent any more", process);
    return FERRY_BAD_ARGUMENT;
  }
  pthread_mutex_lock(&lock);
  const bool kept = import_count < sizeof imports / sizeof imports[0] &&
                    keep((block){other_address(start), bytes, device, RESERVED_BLOCK, -1});
  if (kept) {
    imported_part* entry = &imports[import_count++];
    *entry = (imported_part){other_address(start), bytes, {0}};
    (void)snprintf(entry->key, sizeof entry->key, "%s", key);
  }
  pthread_mutex_unlock(&lock);
  if (!kept) {
    munmap(start, bytes);
    return FERRY_OUT_OF_MEMORY;
  }
  *pointer = other_address(start);
  return FERRY_OK;
}

ferry_status ferry_close_import(const char* key) {
  imported_part closed = {0};
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < import_count; i++) {
    if (strcmp(imports[i].key, key) == 0) {
      closed = imports[i];
      imports[i] = imports[--import_count];
      const block* entry = block_of(closed.start);
      if (entry != NULL && entry->start == closed.start) {
        drop(entry);
      }
      break;
    }
  }
  pthread_mutex_unlock(&lock);
  if (closed.start != NULL) {
    munmap(other_address(closed.start), closed.bytes);
  }
  return FERRY_OK;  // a key of this process' own memory: nothing was mapped
}

// --- addresses first, memory later ---

typedef struct {
  int file;
  size_t bytes;
  int device;
} physical;

typedef struct {
  char* start;
  size_t bytes;
} mapping;

static mapping mappings[4096];
static size_t mapping_count;

ferry_status ferry_reserve(void** address, size_t bytes, size_t alignment) {
  if (address == NULL || bytes == 0) {
    return FERRY_BAD_ARGUMENT;
  }
  int device = 0;
  (void)ferry_current_device(&device);  // addresses are of no device: a plugin asks for some before it sets one
  (void)alignment;                      // pages are enough for what is computed here
  void* start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    ferry_say("%zu bytes of addresses cannot be reserved", bytes);
    return FERRY_SYSTEM;
  }
  pthread_mutex_lock(&lock);
  const bool kept = keep((block){other_address(start), bytes, device, RESERVED_BLOCK, -1});
  pthread_mutex_unlock(&lock);
  if (!kept) {
    munmap(start, bytes);
    return FERRY_OUT_OF_MEMORY;
  }
  *address = other_address(start);
  return FERRY_OK;
}

ferry_status ferry_unreserve(void* address) {
  pthread_mutex_lock(&lock);
  const block* entry = block_of(address);
  const size_t bytes = entry != NULL && entry->start == address ? entry->bytes : 0;
  pthread_mutex_unlock(&lock);
  const ferry_status status = release(address, RESERVED_BLOCK, false);
  if (status == FERRY_OK) {
    munmap(other_address(address), bytes);
  }
  return status;
}

ferry_status ferry_make_physical(void** handle, size_t bytes, int device) {
  if (handle == NULL || bytes == 0 || device < 0 || device >= ferry_device_count()) {
    return FERRY_BAD_ARGUMENT;
  }
  physical* made = malloc(sizeof *made);
  if (made == NULL) {
    return FERRY_OUT_OF_MEMORY;
  }
  pthread_mutex_lock(&lock);
  ferry_status status = charge(device, bytes);
  pthread_mutex_unlock(&lock);
  if (status == FERRY_OK) {
    *made = (physical){memfd_create("ferry", MFD_CLOEXEC), bytes, device};
    if (made->file < 0 || ftruncate(made->file, (off_t)bytes) != 0) {
      ferry_say("the system gives no file of %zu bytes in memory", bytes);
      if (made->file >= 0) {
        close(made->file);
      }
      pthread_mutex_lock(&lock);
      used[device] -= (int64_t)bytes;
      pthread_mutex_unlock(&lock);
      status = FERRY_SYSTEM;
    }
  }
  if (status != FERRY_OK) {
    free(made);
    return status;
  }
  *handle = made;
  return FERRY_OK;
}

ferry_status ferry_free_physical(void* handle) {
  physical* memory = handle;
  if (memory == NULL) {
    return FERRY_BAD_ARGUMENT;
  }
  pthread_mutex_lock(&lock);
  used[memory->device] -= (int64_t)memory->bytes;
  pthread_mutex_unlock(&lock);
  close(memory->file);  // what is mapped stays until it is unmapped
  free(memory);
  return FERRY_OK;
}

ferry_status ferry_map(void* address, size_t bytes, size_t offset, void* handle) {
  const physical* memory = handle;
  if (memory == NULL || address == NULL || offset > memory->bytes || bytes > memory->bytes - offset ||
      !fits(address, bytes)) {
    return FERRY_BAD_ARGUMENT;
  }
  pthread_mutex_lock(&lock);
  const bool room = mapping_count < sizeof mappings / sizeof mappings[0];
  const bool mapped = room && mmap(other_address(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                   memory->file, (off_t)offset) != MAP_FAILED;
  if (mapped) {
    mappings[mapping_count++] = (mapping){address, bytes};
  }
  pthread_mutex_unlock(&lock);
  if (!mapped) {
    ferry_say("memory cannot be mapped at %p", address);
  }
  return mapped ? FERRY_OK : FERRY_SYSTEM;
}

ferry_status ferry_unmap(void* address) {
  size_t bytes = 0;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < mapping_count; i++) {
    if (mappings[i].start == address) {
      bytes = mappings[i].bytes;
      mappings[i] = mappings[--mapping_count];
      break;
    }
  }
  if (bytes != 0) {  // the addresses stay reserved
    (void)mmap(other_address(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
               0);
  }
  pthread_mutex_unlock(&lock);
  if (bytes == 0) {
    ferry_say("nothing is mapped at %p", address);
  }
  return bytes == 0 ? FERRY_BAD_ARGUMENT : FERRY_OK;
}
