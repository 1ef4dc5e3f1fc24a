/* Filters of system calls: what they forbid fails, raises SIGSYS or ends the process; everything else goes on. Threads and children have them, too, and so
   has a program that is executed. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ON(number, answer)                                                                                             \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, answer)
#define OTHERS(answer) BPF_STMT(BPF_RET | BPF_K, answer)

static int install(const struct sock_filter *filter, unsigned short length) {
    struct sock_fprog program = {length, (struct sock_filter *)filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void forbidden(int signal, siginfo_t *info, void *context) {
    (void)context;
    printf("signal %d code %d errno %d call %d arch %x\n", signal, info->si_code, info->si_errno, info->si_syscall,
           info->si_arch);
}

static void *thread(void *argument) {
    long value = syscall(SYS_getppid);
    printf("%s: %ld %s\n", (char *)argument, value, value < 0 ? strerror(errno) : "");
    return NULL;
}

static void end(const char *what, pid_t child) {
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) printf("%s: exit code %d\n", what, WEXITSTATUS(status));
    else printf("%s: signal %d\n", what, WTERMSIG(status));
    fflush(stdout);
}

int main(void) {
    static const struct sock_filter errors[] = {
        LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0), OTHERS(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),   ON(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV), ON(SYS_uname, SECCOMP_RET_TRAP | 7),
        ON(SYS_ptrace, SECCOMP_RET_ERRNO | ENOANO), OTHERS(SECCOMP_RET_ALLOW)};
    static const struct sock_filter deadly[] = {LOAD(nr), ON(SYS_getuid, SECCOMP_RET_KILL_PROCESS),
                                                ON(SYS_getppid, SECCOMP_RET_ERRNO | EBADF), OTHERS(SECCOMP_RET_ALLOW)};
    static const struct sock_filter endless[] = {BPF_STMT(BPF_JMP | BPF_JA, 5), OTHERS(SECCOMP_RET_ALLOW)};
    struct sigaction action = {0};
    struct utsname name;
    pthread_t started;
    pid_t child;

    setvbuf(stdout, NULL, _IONBF, 0);
    printf("mode %d\n", prctl(PR_GET_SECCOMP));
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (install(endless, 2) < 0) printf("invalid: %s\n", strerror(errno));
    if (install(errors, 0) < 0) printf("empty: %s\n", strerror(errno));
    printf("errors: %d\n", install(errors, sizeof errors / sizeof *errors));
    printf("mode %d\n", prctl(PR_GET_SECCOMP));
    thread("main");
    pthread_create(&started, NULL, thread, "thread");
    pthread_join(started, NULL);

    action.sa_sigaction = forbidden;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSYS, &action, NULL);
    memset(&name, 'x', sizeof name);
    uname(&name);
    printf("after the signal: %c\n", name.sysname[0]);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0) printf("ptrace: %s\n", strerror(errno));

    if ((child = fork()) == 0) {
        install(deadly, sizeof deadly / sizeof *deadly);
        thread("stacked");
        syscall(SYS_getuid);
        _exit(1);
    }
    end("killed", child);
    if ((child = fork()) == 0) {
        execl("/bin/sh", "sh", "-c", "uname >/dev/null 2>&1; echo $?", (char *)NULL);
        _exit(127);
    }
    end("executed", child);
    if ((child = fork()) == 0) {
        signal(SIGSYS, SIG_DFL);
        uname(&name);
        _exit(1);
    }
    end("not caught", child);
    return 0;
}
