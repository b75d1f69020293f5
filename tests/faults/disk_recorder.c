/* A library for LD_PRELOAD. It records what a process and its children do to the names and the files of one folder.

   Each line of the file $DISK_RECORD/log is one call that succeeded, with fields separated by tabs:

     operation, number of the inode, path, second path, name of the copy of the file's content in $DISK_RECORD

   A copy is taken when the content is synced, and before the file gets another name or loses one. Writes are not
   recorded: what a file holds without being synced is seen in its next copy. Each call holds a lock from before it
   is made until it is recorded, so the order of the lines is the order of the calls, over all threads and processes.

   With $DISK_COUNT in place of $DISK_RECORD, the calls are only counted: each but the creation of a file appends a byte
   to the file of that name: s for a sync, n for a new name, d for a name less, f for a folder. Before the call of the
   number $DISK_KILL_AT, the process $DISK_KILLED is killed. With $DISK_STOPS, each call writes a byte to the pipe
   $DISK_STOPS.called, and waits for one from the pipe $DISK_STOPS.go. Nothing is synced then: a killed process leaves
   the same with and without it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int raw_open(const char *path, int flags) { return syscall(SYS_openat, AT_FDCWD, path, flags, 0600); }

/* The absolute path without links in its folder; empty if the folder does not exist. */
static void resolve(int folder, const char *path, char *whole) {
  char start[PATH_MAX], real[PATH_MAX], link[64];
  whole[0] = 0;
  if (path[0] == '/') {
    snprintf(start, sizeof start, "%s", path);
  } else {
    ssize_t length;
    snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    length = readlink(link, real, sizeof real - 1);
    if (length < 0) return;
    real[length] = 0;
    if (snprintf(start, sizeof start, "%s/%s", real, path) >= (int)sizeof start) return;
  }
  for (size_t end = strlen(start); end > 1 && start[end - 1] == '/'; end--) start[end - 1] = 0;
  char *slash = strrchr(start, '/');
  if (slash == NULL) return;
  *slash = 0;
  if (realpath(slash == start ? "/" : start, real) == NULL) return;
  if (snprintf(whole, PATH_MAX, "%s/%s", strcmp(real, "/") ? real : "", slash + 1) >= PATH_MAX) whole[0] = 0;
}

static void path_of(int descriptor, char *whole) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, whole, PATH_MAX - 1);
  whole[length < 0 ? 0 : length] = 0;
}

static int is_inside(const char *path) {
  const char *root = getenv("DISK_ROOT");
  size_t length = root ? strlen(root) : 0;
  return length && !strncmp(path, root, length) && path[length] == '/';
}

/* Tells the test of a call, and waits until the test has looked at what is there. */
static void stop(void) {
  char path[PATH_MAX], byte = 0;
  const char *stops = getenv("DISK_STOPS");
  if (stops == NULL) return;
  snprintf(path, sizeof path, "%s.called", stops);
  int called = raw_open(path, O_WRONLY | O_CLOEXEC);
  snprintf(path, sizeof path, "%s.go", stops);
  int go = raw_open(path, O_RDONLY | O_CLOEXEC);
  syscall(SYS_write, called, &byte, 1);
  while (syscall(SYS_read, go, &byte, 1) < 0 && errno == EINTR) continue;
  syscall(SYS_close, called);
  syscall(SYS_close, go);
}

static void count(char kind) {
  const char *path = getenv("DISK_COUNT"), *last = getenv("DISK_KILL_AT"), *process = getenv("DISK_KILLED");
  if (path == NULL) return;
  int before = errno, file = raw_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC);
  flock(file, LOCK_EX);
  syscall(SYS_write, file, &kind, 1);
  stop();
  if (last && process && lseek(file, 0, SEEK_END) == atol(last)) {
    kill(atoi(process), SIGKILL);
    kill(getpid(), SIGKILL);
  }
  syscall(SYS_close, file);
  errno = before;
}

/* Begins a call; the result is -1 if the calls are not recorded. It is not counted if it has no kind. */
static int lock(char kind) {
  char path[PATH_MAX];
  if (kind) count(kind);
  if (getenv("DISK_RECORD") == NULL) return -1;
  snprintf(path, sizeof path, "%s/log", getenv("DISK_RECORD"));
  int log = raw_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC);
  flock(log, LOCK_EX);
  return log;
}

/* Copies the content of a file of the folder; `name` gets the name of the copy, or nothing if it is not a file. */
static void copy(const char *path, int log, char *name) {
  char target[PATH_MAX], block[1 << 16];
  struct stat status;
  name[0] = 0;
  if (log < 0 || lstat(path, &status) || !S_ISREG(status.st_mode)) return;
  int from = raw_open(path, O_RDONLY | O_CLOEXEC);
  if (from < 0) return;
  sprintf(name, "copy-%lld", (long long)lseek(log, 0, SEEK_END));
  snprintf(target, sizeof target, "%s/%s", getenv("DISK_RECORD"), name);
  int to = raw_open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
  for (ssize_t count; (count = syscall(SYS_read, from, block, sizeof block)) > 0;) syscall(SYS_write, to, block, count);
  syscall(SYS_close, from);
  syscall(SYS_close, to);
}

static long long inode_of(const char *path) {
  struct stat status;
  return lstat(path, &status) ? 0 : (long long)status.st_ino;
}

/* Ends a call that `lock` began; it is recorded if `is_done`. */
static void record(int log, int is_done, const char *operation, long long inode, const char *path, const char *second,
                   const char *name) {
  char line[3 * PATH_MAX];
  int before = errno;
  if (log < 0) return;
  if (is_done) {
    int length = snprintf(line, sizeof line, "%s\t%lld\t%s\t%s\t%s\n", operation, inode, path, second, name);
    syscall(SYS_write, log, line, length);
  }
  syscall(SYS_close, log);
  errno = before;
}

static int synced(int descriptor, int (*real)(int)) {
  char path[PATH_MAX], name[64];
  path_of(descriptor, path);
  const char *root = getenv("DISK_ROOT");
  if (!is_inside(path) && !(root && !strcmp(path, root))) return real(descriptor);
  int log = lock('s');
  struct stat status;
  fstat(descriptor, &status);
  copy(path, log, name);
  int result = getenv("DISK_COUNT") ? 0 : real(descriptor);
  record(log, !result, "sync", status.st_ino, path, "", name);
  return result;
}

int fsync(int descriptor) { return synced(descriptor, REAL(fsync)); }
int fdatasync(int descriptor) { return synced(descriptor, REAL(fdatasync)); }

static int renamed(int from, const char *source, int to, const char *target, unsigned flags) {
  char before[PATH_MAX], after[PATH_MAX], name[64];
  resolve(from, source, before);
  resolve(to, target, after);
  if (!is_inside(before) && !is_inside(after)) return syscall(SYS_renameat2, from, source, to, target, flags);
  int log = lock('n');
  long long inode = inode_of(before);
  copy(before, log, name);
  int result = syscall(SYS_renameat2, from, source, to, target, flags);
  record(log, !result, "rename", inode, before, after, name);
  return result;
}

int rename(const char *source, const char *target) { return renamed(AT_FDCWD, source, AT_FDCWD, target, 0); }
int renameat(int from, const char *source, int to, const char *target) { return renamed(from, source, to, target, 0); }
int renameat2(int from, const char *source, int to, const char *target, unsigned flags) {
  return renamed(from, source, to, target, flags);
}

static int removed(int folder, const char *path, int flags) {
  char whole[PATH_MAX], name[64];
  resolve(folder, path, whole);
  if (!is_inside(whole)) return syscall(SYS_unlinkat, folder, path, flags);
  int log = lock('d');
  long long inode = inode_of(whole);
  copy(whole, log, name);
  int result = syscall(SYS_unlinkat, folder, path, flags);
  record(log, !result, "remove", inode, whole, "", name);
  return result;
}

int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return removed(folder, path, flags); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
  struct stat status;
  return removed(AT_FDCWD, path, !lstat(path, &status) && S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0);
}

int mkdirat(int folder, const char *path, mode_t mode) {
  char whole[PATH_MAX];
  resolve(folder, path, whole);
  if (!is_inside(whole)) return syscall(SYS_mkdirat, folder, path, mode);
  int log = lock('f'), result = syscall(SYS_mkdirat, folder, path, mode);
  record(log, !result, "mkdir", inode_of(whole), whole, "", "");
  return result;
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int linkat(int from, const char *source, int to, const char *target, int flags) {
  char before[PATH_MAX], after[PATH_MAX], name[64];
  resolve(from, source, before);
  resolve(to, target, after);
  if (!is_inside(after)) return syscall(SYS_linkat, from, source, to, target, flags);
  int log = lock('n');
  copy(before, log, name);
  int result = syscall(SYS_linkat, from, source, to, target, flags);
  record(log, !result, "link", inode_of(after), before, after, name);
  return result;
}

int link(const char *source, const char *target) { return linkat(AT_FDCWD, source, AT_FDCWD, target, 0); }

static int opened(int folder, const char *path, int flags, mode_t mode) {
  char whole[PATH_MAX];
  if (!(flags & O_CREAT)) return syscall(SYS_openat, folder, path, flags, mode);
  resolve(folder, path, whole);
  if (!is_inside(whole)) return syscall(SYS_openat, folder, path, flags, mode);
  int log = lock(0), is_new = !inode_of(whole), result = syscall(SYS_openat, folder, path, flags, mode);
  record(log, result >= 0 && is_new, "create", inode_of(whole), whole, "", "");
  return result;
}

#define OPEN(name, parameters, folder, path)                    \
  int name parameters {                                         \
    va_list more;                                               \
    va_start(more, flags);                                      \
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                               \
    return opened(folder, path, flags, mode);                   \
  }
OPEN(open, (const char *path, int flags, ...), AT_FDCWD, path)
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, path)
OPEN(openat, (int folder, const char *path, int flags, ...), folder, path)
OPEN(openat64, (int folder, const char *path, int flags, ...), folder, path)

/* A file that fopen makes is made here, so that it is recorded. */
static void prepare(const char *path, const char *mode) {
  if (mode[0] == 'r') return;
  int before = errno, descriptor = opened(AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor >= 0) syscall(SYS_close, descriptor);
  errno = before;
}

FILE *fopen(const char *path, const char *mode) {
  if (!strchr(mode, 'x')) prepare(path, mode);
  return REAL(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
  if (!strchr(mode, 'x')) prepare(path, mode);
  return REAL(fopen64)(path, mode);
}
