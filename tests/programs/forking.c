/* Children are made while another thread is in the middle of something: what it has locked must not stay locked for them. The thread makes system calls
 * under a filter, and maps a library whose symbols are looked at. The children do the same. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 200 };

static atomic_int done;
static int library;
static off_t length;

static void map_library(void) {
    void *mapped = mmap(0, length, PROT_READ | PROT_EXEC, MAP_PRIVATE, library, 0);
    if (mapped == MAP_FAILED) _exit(9);
    munmap(mapped, length);
}

static void call(void) {
    for (int k = 0; k < 20; k++)
        if (syscall(SYS_getppid) <= 0) _exit(8);
}

static void *repeat(void *action) {
    while (!atomic_load(&done)) ((void (*)(void))action)();
    return 0;
}

static void fork_beside(const char *what, void (*action)(void)) {
    pthread_t thread;
    int ended_well = 0, status;
    atomic_store(&done, 0);
    if (pthread_create(&thread, 0, repeat, (void *)action) != 0) return;
    for (int k = 0; k < CHILDREN; k++) {
        pid_t child = fork();
        if (child == 0) {
            /* Ends a child that hangs. */
            alarm(10);
            action();
            _exit(7);
        }
        waitpid(child, &status, 0);
        ended_well += WIFEXITED(status) && WEXITSTATUS(status) == 7;
        if (WIFSIGNALED(status)) break;
    }
    atomic_store(&done, 1);
    pthread_join(thread, 0);
    printf("%s: %d children\n", what, ended_well);
}

int main(void) {
    /* As long as a real one. */
    static struct sock_filter filter[1000];
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    Dl_info information;
    struct stat status;
    if (!dladdr((void *)sin, &information) || (library = open(information.dli_fname, O_RDONLY)) < 0) return 1;
    fstat(library, &status);
    length = status.st_size;
    fork_beside("mapping", map_library);
    for (int k = 0; k < 999; k++) filter[k] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    filter[999] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 2;
    fork_beside("filtered", call);
    return 0;
}
