/* fork, exec, wait, pipes between processes, vfork, posix_spawn, system, popen. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void report(const char *what, int status) {
    if (WIFEXITED(status)) printf("%s: exit code %d\n", what, WEXITSTATUS(status));
    else printf("%s: signal %d\n", what, WTERMSIG(status));
    fflush(stdout);
}

int main(void) {
    int status, pipes[2], i;
    pid_t child;
    char line[100];
    char *echo[] = {"echo", "from posix_spawn", NULL};
    FILE *stream;

    for (i = 0; i < 3; i++) {
        fflush(stdout);
        child = fork();
        if (child == 0) {
            double sum = 0;
            int k;
            for (k = 1; k < 1000; k++) sum += 1.0 / k;
            printf("child %d: %.17g\n", i, sum);
            fflush(stdout);
            if (i == 2) abort();
            _exit(10 + i);
        }
        waitpid(child, &status, 0);
        report("fork", status);
    }
    child = fork();
    if (child == 0) {
        execlp("sh", "sh", "-c", "echo from exec; exit 5", (char *)NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    report("exec", status);

    if (pipe(pipes) != 0) return 1;
    child = fork();
    if (child == 0) {
        dup2(pipes[1], 1);
        close(pipes[0]);
        close(pipes[1]);
        execl("/bin/echo", "echo", "through a pipe", (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    memset(line, 0, sizeof line);
    if (read(pipes[0], line, sizeof line - 1) > 0) printf("%s", line);
    waitpid(child, &status, 0);
    report("pipe", status);

    fflush(stdout);
    child = vfork();
    if (child == 0) {
        execl("/bin/false", "false", (char *)NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    report("vfork", status);
    if (posix_spawnp(&child, "echo", NULL, NULL, echo, environ) != 0) return 1;
    waitpid(child, &status, 0);
    report("posix_spawn", status);
    report("system", system("exit 3"));
    stream = popen("echo from popen", "r");
    if (stream && fgets(line, sizeof line, stream)) printf("%s", line);
    if (stream) report("popen", pclose(stream));
    fflush(stdout);
    execl("/bin/nothing-here", "nothing", (char *)NULL);
    perror("exec of a missing program");
    execl("/bin/echo", "echo", "last words", (char *)NULL);
    return 1;
}
