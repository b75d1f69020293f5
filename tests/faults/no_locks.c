/* A library for LD_PRELOAD: the file system has no locks, as Lustre that was mounted without the option `flock`. */
#include <errno.h>

int flock(int descriptor, int operation) {
  (void)descriptor;
  (void)operation;
  errno = ENOSYS;
  return -1;
}
