// What a plugin does with its driver, in C: linked with the simulated libraries as with the vendor's, for any machine.
// Prints what came of it; the test knows what that has to be.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void ferry_set_number(const char* key, int64_t value);
const char* aclGetRecentErrMsg(void);
int aclrtGetDeviceCount(uint32_t* count);
int aclrtSetDevice(int32_t device);
int aclrtGetDevice(int32_t* device);
int aclrtMalloc(void** pointer, size_t bytes, int policy);
int aclrtFree(void* pointer);
int aclrtMallocHost(void** pointer, size_t bytes);
int aclrtFreeHost(void* pointer);
int aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, int kind);
int aclrtMemset(void* to, size_t room, int32_t value, size_t bytes);
int aclrtGetMemInfo(int kind, size_t* available, size_t* total);
int aclrtPointerGetAttributes(const void* pointer, uint32_t* attributes);
int aclrtReserveMemAddress(void** address, size_t bytes, size_t alignment, void* wanted, uint64_t flags);
int aclrtReleaseMemAddress(void* address);
int aclrtMallocPhysical(void** handle, size_t bytes, const uint32_t* properties, uint64_t flags);
int aclrtFreePhysical(void* handle);
int aclrtMapMem(void* address, size_t bytes, size_t offset, void* handle, uint64_t flags);
int aclrtUnmapMem(void* address);
int aclrtIpcMemGetExportKey(void* pointer, size_t bytes, char* key, size_t room, uint64_t flags);
int aclrtIpcMemImportByKey(void** pointer, const char* key, uint64_t flags);
int aclrtIpcMemClose(const char* key);
int aclrtCreateStream(void** stream);
int aclrtDestroyStream(void* stream);
int aclrtStreamQuery(void* stream, uint32_t* status);
int aclrtSynchronizeStream(void* stream);
int aclrtLaunchHostFunc(void* stream, void (*function)(void*), void* argument);
int aclrtCreateEventExWithFlag(void** event, uint32_t flags);
int aclrtDestroyEvent(void* event);
int aclrtRecordEvent(void* event, void* stream);
int aclrtStreamWaitEvent(void* stream, void* event);
int aclrtEventElapsedTime(float* milliseconds, void* start, void* end);
int aclrtValueWait(void);
int HcclGetRootInfo(char* root);
int HcclCommInitRootInfo(uint32_t ranks, const char* root, uint32_t rank, void** group);
int HcclCommDestroy(void* group);
int HcclAllReduce(const void* from, void* to, uint64_t count, int type, int operation, void* group, void* stream);
int HcclBroadcast(void* data, uint64_t count, int type, uint32_t root, void* group, void* stream);
int HcclBarrier(void* group, void* stream);

enum { MIB = 1 << 20, SUM = 0, INT8 = 0, FLOAT16 = 3, FLOAT32 = 4, INT64 = 5, BFLOAT16 = 11 };

static void* device_of_new_thread(void* status) {
  int32_t device = 0;
  *(int*)status = aclrtGetDevice(&device);
  return NULL;
}

static void devices(void) {
  uint32_t count = 0;
  int32_t device = -1;
  int in_thread = 0;
  pthread_t thread;
  aclrtGetDeviceCount(&count);
  printf("devices %" PRIu32 ": %d %d", count, aclrtGetDevice(&device), aclrtSetDevice(2));
  printf(" %d", aclrtSetDevice(1));
  aclrtGetDevice(&device);
  pthread_create(&thread, NULL, device_of_new_thread, &in_thread);
  pthread_join(thread, NULL);
  printf(", device %" PRId32 ", in a new thread %d\n", device, in_thread);
}

static void memory(void) {
  void *first = NULL, *second = NULL, *pinned = NULL;
  char out[8] = {0};
  uint32_t attributes[7];
  size_t available = 0, total = 0;
  const int given = aclrtMalloc(&first, 3 * MIB, 0), refused = aclrtMalloc(&second, 2 * MIB, 0);
  printf("memory %d %d: %s\n", given, refused, aclGetRecentErrMsg());
  aclrtGetMemInfo(0, &available, &total);
  printf("aligned %d, %zu of %zu available\n", (uintptr_t)first % 512 == 0, available, total);
  aclrtMallocHost(&pinned, 8);
  memcpy(pinned, "carried", 8);
  int status = aclrtMemcpy(first, 8, pinned, 8, 1) | aclrtMemcpy((char*)first + 100, 8, first, 8, 3);
  status |= aclrtMemset(first, 3, '-', 3) | aclrtMemcpy(out, 8, (char*)first + 100, 8, 2);
  printf("copied %d '%s' '%.8s', too far %d\n", status, out, (char*)first,
         aclrtMemcpy((char*)first + 3 * MIB - 4, 8, out, 8, 1));
  aclrtPointerGetAttributes(first, attributes);
  printf("pointer of device %" PRIu32 " kind %" PRIu32 "\n", attributes[0], attributes[1]);
  status = aclrtFree(first);
  printf("freed %d, twice %d, pinned %d\n", status, aclrtFree(first), aclrtFreeHost(pinned));
}

static void addresses(void) {
  const uint32_t properties[8] = {0};
  void *address = NULL, *handle = NULL;
  int status = aclrtReserveMemAddress(&address, 4 * MIB, 0, NULL, 0);
  status |= aclrtMallocPhysical(&handle, 2 * MIB, properties, 0);
  status |= aclrtMapMem((char*)address + 2 * MIB, 2 * MIB, 0, handle, 0);
  ((char*)address)[4 * MIB - 1] = 'x';
  status |= aclrtUnmapMem((char*)address + 2 * MIB) | aclrtFreePhysical(handle) | aclrtReleaseMemAddress(address);
  printf("addresses %d\n", status);
}

static void count_up(void* number) { ++*(int*)number; }

static void streams(void) {
  void *stream = NULL, *start = NULL, *end = NULL;
  uint32_t done = 9;
  float elapsed = -1;
  int number = 0;
  int status = aclrtCreateStream(&stream) | aclrtCreateEventExWithFlag(&start, 8) | aclrtCreateEventExWithFlag(&end, 8);
  const int too_early = aclrtEventElapsedTime(&elapsed, start, end);
  status |= aclrtRecordEvent(start, stream) | aclrtLaunchHostFunc(stream, count_up, &number);
  usleep(20000);
  status |= aclrtRecordEvent(end, stream) | aclrtStreamWaitEvent(stream, end) | aclrtStreamQuery(stream, &done);
  status |= aclrtSynchronizeStream(stream) | aclrtEventElapsedTime(&elapsed, start, end);
  status |= aclrtDestroyEvent(start) | aclrtDestroyEvent(end) | aclrtDestroyStream(stream);
  printf("streams %d, too early %d, %d call, waited %d, elapsed %d\n", status, too_early, number, done != 9,
         elapsed >= 20);
}

static int on_rank(const char* root, uint32_t rank, const char* key) {
  void *group = NULL, *imported = NULL;
  float single[3] = {1.0F + (float)rank, 0.1F, -2};
  uint16_t half[2] = {0x3c00, 0x7bff}, brain[2] = {0x3f80, 0x4049};  // 1 and the largest; 1 and 3.140625
  int64_t whole[2] = {INT64_C(1) << 40, -(int64_t)rank};
  int8_t small[1] = {(int8_t)(100 * rank)};
  aclrtSetDevice((int32_t)rank);
  int status = HcclCommInitRootInfo(2, root, rank, &group);
  status |= HcclAllReduce(single, single, 3, FLOAT32, SUM, group, NULL);
  status |= HcclAllReduce(half, half, 2, FLOAT16, SUM, group, NULL);
  status |= HcclAllReduce(brain, brain, 2, BFLOAT16, SUM, group, NULL);
  status |= HcclAllReduce(whole, whole, 2, INT64, SUM, group, NULL);
  status |= HcclBroadcast(small, 1, INT8, 1, group, NULL);
  if (rank == 1) {
    status |= aclrtIpcMemImportByKey(&imported, key, 0);
    ((char*)imported)[0] = 'i';
    status |= aclrtIpcMemClose(key);
  }
  status |= HcclBarrier(group, NULL) | HcclCommDestroy(group);
  const int right = single[0] == 3 && single[1] == 0.2F && single[2] == -4 && half[0] == 0x4000 && half[1] == 0x7c00 &&
                    brain[0] == 0x4000 && brain[1] == 0x40c9 && whole[0] == INT64_C(1) << 41 && whole[1] == -1 &&
                    small[0] == 100;
  return status == 0 && right ? 0 : 1;
}

static void ranks(void) {
  char root[4108], key[128];
  char* shared = NULL;
  int ended = 1;
  int status = HcclGetRootInfo(root) | aclrtMalloc((void**)&shared, MIB, 0);
  status |= aclrtIpcMemGetExportKey(shared, MIB, key, sizeof key, 0);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    _exit(on_rank(root, 1, key));
  }
  status |= on_rank(root, 0, key);
  waitpid(child, &ended, 0);
  printf("ranks %d %d, written by the other '%c'\n", status, ended, shared[0]);
}

int main(void) {
  ferry_set_number("devices", 2);
  ferry_set_number("memory", 4 * MIB);
  ferry_set_number("timeout", 60);
  devices();
  memory();
  addresses();
  streams();
  printf("refused %d", aclrtValueWait());
  printf(": %s\n", aclGetRecentErrMsg());
  ranks();
  return 0;
}
