/* Preloaded into the crawler: records what it does to files below POWER_ROOT, in order, into the file POWER_LOG, so that
 * power.py can rebuild what a disk would hold after a power cut at any moment.
 *
 * A record is: a letter, three 64-bit numbers, and as many bytes as the third says.
 *   P                         a process starts; all its files are its own
 *   O fd flags path           open        A fd new          the same file under another number      C fd       close
 *   W fd offset bytes         write       T fd length       truncate                                S fd       sync
 *   R 0 0 old NUL new         rename      U 0 0 path        unlink or rmdir                         D 0 0 path mkdir
 *
 * One lock holds each call and its record together. Copies inside the kernel are refused, so that the caller writes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_FILES 65536
#define REAL(name) ((__typeof__(&name))real(#name))

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static int record_file = -1;
static const char *root;
static char tracked[MOST_FILES];

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static void record(char kind, int64_t a, int64_t b, const void *bytes, size_t length)
{
    int64_t numbers[3] = { a, b, (int64_t)length };
    struct iovec parts[3] = { { &kind, 1 }, { numbers, sizeof numbers }, { (void *)bytes, length } };
    int before = errno;
    if (syscall(SYS_writev, record_file, parts, 3) != (long)(1 + sizeof numbers + length)) {
        fprintf(stderr, "power.c: the record cannot be written\n");
        abort();
    }
    errno = before;
}

__attribute__((constructor)) static void begin(void)
{
    const char *file = getenv("POWER_LOG");
    root = getenv("POWER_ROOT");
    if (!file || !root)
        return;
    record_file = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (record_file >= 0)
        record('P', 0, 0, "", 0);
}

/* The whole path if it lies below the root; 0 if it does not. */
static const char *below(int dir, const char *path, char *whole)
{
    size_t length = root ? strlen(root) : 0;
    if (record_file < 0)
        return 0;
    if (path[0] != '/') {
        char link[64];
        ssize_t n;
        if (dir == AT_FDCWD)
            snprintf(link, sizeof link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        n = readlink(link, whole, PATH_MAX);
        if (n <= 0 || n + strlen(path) + 2 > PATH_MAX)
            return 0;
        whole[n] = '/';
        strcpy(whole + n + 1, path);
        path = whole;
    }
    if (strncmp(path, root, length) != 0 || (path[length] != '/' && path[length] != 0))
        return 0;
    return path;
}

static int is_tracked(int fd)
{
    return record_file >= 0 && fd >= 0 && fd < MOST_FILES && tracked[fd];
}

static int open_below(int dir, const char *path, int flags, mode_t mode)
{
    char room[PATH_MAX];
    const char *whole = below(dir, path, room);
    int fd;
    if (!whole)
        return (int)syscall(SYS_openat, dir, path, flags, mode);
    pthread_mutex_lock(&order);
    fd = (int)syscall(SYS_openat, dir, path, flags, mode);
    if (fd >= 0 && fd < MOST_FILES) {
        tracked[fd] = 1;
        record('O', fd, flags, whole, strlen(whole));
    }
    pthread_mutex_unlock(&order);
    return fd;
}

#define OPEN(name, dir_parameter, dir)                                  \
    int name(dir_parameter const char *path, int flags, ...)            \
    {                                                                   \
        va_list rest;                                                   \
        mode_t mode;                                                    \
        va_start(rest, flags);                                          \
        mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                   \
        return open_below(dir, path, flags, mode);                      \
    }
#define AND ,
OPEN(open, , AT_FDCWD)
OPEN(open64, , AT_FDCWD)
OPEN(openat, int at AND, at)
OPEN(openat64, int at AND, at)

int close(int fd)
{
    int result;
    if (!is_tracked(fd))
        return (int)syscall(SYS_close, fd);
    pthread_mutex_lock(&order);
    tracked[fd] = 0;
    record('C', fd, 0, "", 0);
    result = (int)syscall(SYS_close, fd);
    pthread_mutex_unlock(&order);
    return result;
}

static int control(int fd, int command, void *argument)
{
    int result;
    if (!is_tracked(fd) || (command != F_DUPFD && command != F_DUPFD_CLOEXEC))
        return (int)syscall(SYS_fcntl, fd, command, argument);
    pthread_mutex_lock(&order);
    result = (int)syscall(SYS_fcntl, fd, command, argument);
    if (result >= 0 && result < MOST_FILES) {
        tracked[result] = 1;
        record('A', fd, result, "", 0);
    }
    pthread_mutex_unlock(&order);
    return result;
}

#define CONTROL(name)                       \
    int name(int fd, int command, ...)      \
    {                                       \
        va_list rest;                       \
        void *argument;                     \
        va_start(rest, command);            \
        argument = va_arg(rest, void *);    \
        va_end(rest);                       \
        return control(fd, command, argument); \
    }
CONTROL(fcntl)
CONTROL(fcntl64)

/* Where the last n bytes went: also right for files that are open for appending. */
static int64_t written_at(int fd, ssize_t n)
{
    return (int64_t)lseek(fd, 0, SEEK_CUR) - n;
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    ssize_t n;
    if (!is_tracked(fd))
        return syscall(SYS_write, fd, bytes, length);
    pthread_mutex_lock(&order);
    n = syscall(SYS_write, fd, bytes, length);
    if (n > 0)
        record('W', fd, written_at(fd, n), bytes, n);
    pthread_mutex_unlock(&order);
    return n;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    if (!is_tracked(fd))
        return syscall(SYS_writev, fd, parts, count);
    /* Part of it is allowed: the caller goes on with the rest. */
    for (int i = 0; i < count; i++)
        if (parts[i].iov_len > 0)
            return write(fd, parts[i].iov_base, parts[i].iov_len);
    return 0;
}

static ssize_t write_at(int fd, const void *bytes, size_t length, off_t offset)
{
    ssize_t n;
    if (!is_tracked(fd))
        return syscall(SYS_pwrite64, fd, bytes, length, offset);
    pthread_mutex_lock(&order);
    n = syscall(SYS_pwrite64, fd, bytes, length, offset);
    if (n > 0)
        record('W', fd, offset, bytes, n);
    pthread_mutex_unlock(&order);
    return n;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    return write_at(fd, bytes, length, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    return write_at(fd, bytes, length, offset);
}

static int cut(int fd, off_t length)
{
    int result;
    if (!is_tracked(fd))
        return (int)syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&order);
    result = (int)syscall(SYS_ftruncate, fd, length);
    if (result == 0)
        record('T', fd, length, "", 0);
    pthread_mutex_unlock(&order);
    return result;
}

int ftruncate(int fd, off_t length)
{
    return cut(fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    return cut(fd, length);
}

static int sync_by(long call, int fd)
{
    int result;
    if (!is_tracked(fd))
        return (int)syscall(call, fd);
    pthread_mutex_lock(&order);
    result = (int)syscall(call, fd);
    if (result == 0)
        record('S', fd, 0, "", 0);
    pthread_mutex_unlock(&order);
    return result;
}

int fsync(int fd)
{
    return sync_by(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_by(SYS_fdatasync, fd);
}

static int name_call(char kind, int result, const char *first, const char *second)
{
    char both[2 * PATH_MAX];
    size_t length = strlen(first);
    if (result == 0) {
        memcpy(both, first, length);
        if (second) {
            both[length] = 0;
            strcpy(both + length + 1, second);
            length += 1 + strlen(second);
        }
        record(kind, 0, 0, both, length);
    }
    pthread_mutex_unlock(&order);
    return result;
}

int rename(const char *old, const char *new)
{
    char a[PATH_MAX], b[PATH_MAX];
    const char *from = below(AT_FDCWD, old, a), *to = below(AT_FDCWD, new, b);
    if (!from || !to)
        return REAL(rename)(old, new);
    pthread_mutex_lock(&order);
    return name_call('R', REAL(rename)(old, new), from, to);
}

int unlink(const char *path)
{
    char a[PATH_MAX];
    const char *whole = below(AT_FDCWD, path, a);
    if (!whole)
        return REAL(unlink)(path);
    pthread_mutex_lock(&order);
    return name_call('U', REAL(unlink)(path), whole, 0);
}

int rmdir(const char *path)
{
    char a[PATH_MAX];
    const char *whole = below(AT_FDCWD, path, a);
    if (!whole)
        return REAL(rmdir)(path);
    pthread_mutex_lock(&order);
    return name_call('U', REAL(rmdir)(path), whole, 0);
}

int unlinkat(int dir, const char *path, int flags)
{
    char a[PATH_MAX];
    const char *whole = below(dir, path, a);
    if (!whole)
        return REAL(unlinkat)(dir, path, flags);
    pthread_mutex_lock(&order);
    return name_call('U', REAL(unlinkat)(dir, path, flags), whole, 0);
}

int mkdir(const char *path, mode_t mode)
{
    char a[PATH_MAX];
    const char *whole = below(AT_FDCWD, path, a);
    if (!whole)
        return REAL(mkdir)(path, mode);
    pthread_mutex_lock(&order);
    return name_call('D', REAL(mkdir)(path, mode), whole, 0);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *there, size_t length, unsigned flags)
{
    (void)from, (void)at, (void)to, (void)there, (void)length, (void)flags;
    errno = ENOSYS;
    return -1;
}

ssize_t sendfile(int to, int from, off_t *at, size_t length)
{
    (void)to, (void)from, (void)at, (void)length;
    errno = EINVAL;
    return -1;
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t length)
{
    (void)to, (void)from, (void)at, (void)length;
    errno = EINVAL;
    return -1;
}
