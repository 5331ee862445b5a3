/* Preloaded into the crawler: adds to its time of day as many seconds as the file CLOCK_SET holds, whenever that
 * changes. Its monotonic clock stays what it is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *at)
{
    static volatile int file = -1;
    int64_t seconds = 0;
    long result = syscall(SYS_clock_gettime, clock, at);
    if (clock != CLOCK_REALTIME || result != 0)
        return (int)result;
    if (file < 0)
        file = open(getenv("CLOCK_SET"), O_RDONLY | O_CLOEXEC);
    if (file >= 0 && pread(file, &seconds, sizeof seconds, 0) == sizeof seconds)
        at->tv_sec += seconds;
    return 0;
}
