/* Strict mode: read, write and exit only. */
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int status, way;
    for (way = 0; way < 2; way++) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
            if (write(1, "still here\n", 11) != 11) return 1;
            if (way) syscall(SYS_getpid);
            syscall(SYS_exit, 3);
        }
        waitpid(child, &status, 0);
        printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
        fflush(stdout);
    }
    return 0;
}
