/* Processes: fork, vfork, posix_spawn, exec, job control, ends of all kinds. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int status_of(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void *sleeper(void *argument) {
    for (;;) pause();
    return argument;
}

static int cloned(void *argument) { return *(int *)argument; }

int main(int count, char **arguments) {
    if (count > 1) {
        printf("again: %s %s\n", arguments[0], arguments[1]);
        return 2;
    }
    setvbuf(stdout, 0, _IONBF, 0);
    double active = 0.5;
    volatile int shared = 1;
    pid_t child = vfork();
    if (!child) {
        shared = 2;
        execl("/bin/echo", "echo", "from vfork", (char *)0);
        _exit(1);
    }
    printf("vfork: %x, memory %d, %g\n", status_of(child), shared, active);
    child = vfork();
    if (!child) {
        signal(SIGUSR1, SIG_IGN);
        _exit(9);
    }
    struct sigaction action;
    sigaction(SIGUSR1, 0, &action);
    printf("vfork: %x, action %d\n", status_of(child), action.sa_handler == SIG_DFL);

    char *command[] = {"echo", "spawned", 0};
    int error = posix_spawn(&child, "/bin/echo", 0, 0, command, environ);
    printf("spawn: %d %x\n", error, status_of(child));
    error = posix_spawn(&child, "/bin/nonexistent", 0, 0, command, environ);
    printf("spawn: %d\n", error == ENOENT);
    int result = execl("/", "/", (char *)0);
    printf("exec: %d %d\n", result, errno == EACCES);
    printf("system: %x\n", system("echo from system; exit 3"));
    FILE *pipe = popen("cat", "w");
    fputs("through a pipe\n", pipe);
    printf("popen: %x\n", pclose(pipe));

    int value = 21;
    char *stack = malloc(65536);
    child = clone(cloned, stack + 65536, SIGCHLD, &value);
    printf("clone: %x\n", status_of(child));
    child = clone(cloned, stack + 65536, CLONE_VM | CLONE_VFORK | SIGCHLD, &value);
    printf("clone: %x\n", status_of(child));

    child = fork();
    if (!child) {
        raise(SIGSTOP);
        _exit(3);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    printf("stopped: %d\n", WIFSTOPPED(status));
    kill(child, SIGCONT);
    printf("continued: %x\n", status_of(child));
    child = fork();
    if (!child) {
        for (;;) pause();
    }
    usleep(10000);
    kill(child, SIGTERM);
    printf("terminated: %x\n", status_of(child));
    child = fork();
    if (!child) {
        for (volatile long i = 0;; i++) {
        }
    }
    usleep(10000);
    kill(child, SIGINT);
    printf("terminated: %x\n", status_of(child));
    child = fork();
    if (!child) abort();
    printf("aborted: %x\n", status_of(child) & 0x7f);

    pthread_t thread;
    child = fork();
    if (!child) {
        pthread_create(&thread, 0, sleeper, 0);
        execl("/bin/sh", "sh", "-c", "echo executed; exit 6", (char *)0);
        _exit(1);
    }
    printf("exec with threads: %x\n", status_of(child));
    child = fork();
    if (!child) {
        pthread_create(&thread, 0, sleeper, 0);
        exit(7);
    }
    printf("exit with threads: %x\n", status_of(child));
    child = fork();
    if (!child) {
        execl("/proc/self/exe", "name", "itself", (char *)0);
        _exit(1);
    }
    printf("itself: %x\n", status_of(child));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, 0);
    signal(SIGUSR2, SIG_IGN);
    execl("/bin/grep", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status", (char *)0);
    return 1;
}
