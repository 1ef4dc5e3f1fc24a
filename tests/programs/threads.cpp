// Eight threads: mutex, condition variable, barrier, atomics, thread-local storage, once, detach, results by join.
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

static constexpr int THREADS = 8;

static std::mutex mutex;
static std::condition_variable turn_changed;
static int turn = 0;
static long under_mutex = 0;
static std::atomic<long> atomically{0};
static std::atomic<double> atomic_sum{0};
static thread_local long own = 0;
static std::once_flag once;
static pthread_barrier_t barrier;

static void work(int number) {
    std::call_once(once, [] { std::puts("once"); });
    for (int i = 0; i < 20000; i++) {
        own += number;
        atomically.fetch_add(1);
        double old = atomic_sum.load();
        while (!atomic_sum.compare_exchange_weak(old, old + 1)) {}
        std::lock_guard<std::mutex> guard(mutex);
        under_mutex++;
    }
    pthread_barrier_wait(&barrier);
    std::unique_lock<std::mutex> lock(mutex);
    turn_changed.wait(lock, [number] { return turn == number; });
    std::printf("thread %d: own %ld\n", number, own);
    turn++;
    turn_changed.notify_all();
}

static void *double_it(void *argument) { return static_cast<char *>(argument) + reinterpret_cast<std::size_t>(argument); }

int main() {
    pthread_barrier_init(&barrier, nullptr, THREADS);
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) threads.emplace_back(work, i);
    for (auto &thread : threads) thread.join();
    std::printf("%ld %ld %g\n", under_mutex, atomically.load(), atomic_sum.load());

    std::vector<std::future<long>> parts;
    for (int part = 0; part < THREADS; part++) {
        parts.push_back(std::async(std::launch::async, [part] {
            std::vector<long> numbers(1000);
            std::iota(numbers.begin(), numbers.end(), 1000L * part);
            return std::accumulate(numbers.begin(), numbers.end(), 0L);
        }));
    }
    long total = 0;
    for (auto &part : parts) total += part.get();
    std::printf("%ld\n", total);

    for (std::size_t i = 0; i < 200; i++) {
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, nullptr, double_it, reinterpret_cast<void *>(i)) != 0) return 1;
        pthread_join(thread, &result);
        if (reinterpret_cast<std::size_t>(result) != 2 * i) std::printf("wrong result %zu\n", i);
    }
    std::promise<int> promise;
    std::future<int> future = promise.get_future();
    std::thread([&promise] { promise.set_value_at_thread_exit(7); }).detach();
    std::printf("%d\n", future.get());
    return 0;
}
