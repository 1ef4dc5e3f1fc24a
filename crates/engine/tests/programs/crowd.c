/* A hundred threads at once: the memory of each has to stay small. */
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 100, LIMIT_KIB = 100 * 1024 };

static pthread_barrier_t all_here, go_on;

static void *wait_for_the_others(void *unused) {
  pthread_barrier_wait(&all_here);
  pthread_barrier_wait(&go_on);
  return unused;
}

static long resident_kib(void) {
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  long kib = -1;
  while (status && fgets(line, sizeof line, status)) {
    sscanf(line, "VmRSS: %ld kB", &kib);
  }
  if (status) {
    fclose(status);
  }
  return kib;
}

int main(void) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&all_here, NULL, THREADS + 1);
  pthread_barrier_init(&go_on, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++) {
    if (pthread_create(&threads[i], NULL, wait_for_the_others, NULL) != 0) {
      printf("thread %d cannot be created\n", i);
      return 1;
    }
  }
  pthread_barrier_wait(&all_here);
  long kib = resident_kib();
  pthread_barrier_wait(&go_on);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
  if (kib < 0 || kib > LIMIT_KIB) {
    printf("%ld KiB resident\n", kib);
    return 1;
  }
  printf("%d threads\n", THREADS);
  return 0;
}
