// The thread library of C++ and pthreads: mutexes, condition variables, barriers, atomics, futures, thread-local storage.
//
// Argument: number of threads, 0 for the serial program. Inputs: POINTS numbers. Outputs: one for each construct.
#include <pthread.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include <derivgrind.h>

namespace {

constexpr int POINTS = 48;
double x[POINTS];
int threads = 4;

void output(double value) { DG_OUTPUTF(value); }

/// Calls `work` with each number below `POINTS`, in threads that take turns.
void distribute(const std::function<void(int)> &work) {
    if (threads == 0) {
        for (int i = 0; i < POINTS; i++) work(i);
        return;
    }
    std::vector<std::thread> workers;
    for (int number = 0; number < threads; number++) {
        workers.emplace_back([number, &work] {
            for (int i = number; i < POINTS; i += threads) work(i);
        });
    }
    for (auto &worker : workers) worker.join();
}

double with_mutex() {
    std::mutex mutex;
    double sum = 0, weighted = 0;
    distribute([&](int i) {
        double term = std::exp(-x[i]);
        std::lock_guard<std::mutex> guard(mutex);
        sum += term;
        weighted += term * x[i] * i;
    });
    return sum * weighted;
}

template <typename Real> Real fetch_add(std::atomic<Real> &target, Real term) {
    Real old = target.load();
    while (!target.compare_exchange_weak(old, old + term)) {}
    return old;
}

double with_atomics() {
    std::atomic<double> sum{0}, zero{0}, product{1};
    std::atomic<float> single{0};
    distribute([&](int i) {
        fetch_add(sum, x[i] * x[i]);
        fetch_add(zero, x[i] - (0.25 + i / 64.0));
        fetch_add(single, static_cast<float>(x[i]));
        double old = product.load(std::memory_order_relaxed);
        while (!product.compare_exchange_strong(old, old * (1 + x[i] / POINTS), std::memory_order_relaxed)) {
            // Reloaded by a plain load rather than by the exchange.
            old = product.load(std::memory_order_relaxed);
        }
    });
    return sum + 4 * zero + single + product;
}

double with_negations() {
    // The sign bit of an active value is flipped by an atomic operation on integers.
    union Bits {
        double value;
        unsigned long bits;
    };
    std::vector<Bits> bits(POINTS);
    for (int i = 0; i < POINTS; i++) bits[i].value = x[i] * x[i];
    distribute([&](int i) {
        __atomic_fetch_xor(&bits[i].bits, 1UL << 63, __ATOMIC_SEQ_CST);
        __sync_xor_and_fetch(&bits[(i + 1) % POINTS].bits, 1UL << 63);
        __atomic_xor_fetch(&bits[i].bits, 1UL << 63, __ATOMIC_RELAXED);
        // Four times the value.
        __atomic_fetch_add(&bits[i].bits, 2UL << 52, __ATOMIC_SEQ_CST);
    });
    double sum = 0;
    for (auto &each : bits) sum += each.value;
    return sum;
}

double with_overtaking() {
    // Between a load and the exchange another thread adds zero, with a derivative. The program tells by the value whether the exchange has failed.
    union Bits {
        double value;
        unsigned long bits;
    };
    double sum = 0, nothing = x[7] - (0.25 + 7 / 64.0);
    for (double start : {0.0, 1.5}) {
        if (threads == 0) {
            sum += start + nothing + x[8] * x[9];
            continue;
        }
        Bits place{start};
        unsigned long old = __atomic_load_n(&place.bits, __ATOMIC_SEQ_CST);
        std::thread([&] {
            Bits more{place.value + nothing};
            __sync_bool_compare_and_swap(&place.bits, place.bits, more.bits);
        }).join();
        for (;;) {
            Bits next;
            next.bits = old;
            next.value += x[8] * x[9];
            unsigned long seen = __sync_val_compare_and_swap(&place.bits, old, next.bits);
            if (seen == old) break;
            old = seen;
        }
        sum += place.value;
    }
    return sum;
}

double with_slots() {
    // Values go through slots that are full if they are not zero.
    if (threads == 0) {
        double sum = 0;
        for (int i = 0; i < POINTS; i++) sum += x[i] * x[i];
        return 2 * sum;
    }
    std::atomic<double> exchanged{0}, stored{0};
    double sum = 0, second = 0;
    std::thread producer([&] {
        for (int i = 0; i < POINTS; i++) {
            double expected = 0;
            while (!exchanged.compare_exchange_strong(expected, x[i] * x[i])) expected = 0;
            while (stored.load(std::memory_order_acquire) != 0) {}
            stored.store(x[i] * x[i], std::memory_order_release);
        }
    });
    for (int i = 0; i < POINTS; i++) {
        double taken;
        while ((taken = exchanged.exchange(0)) == 0) {}
        sum += taken;
        while ((taken = stored.load(std::memory_order_acquire)) == 0) {}
        stored.store(0, std::memory_order_release);
        second += taken;
    }
    producer.join();
    return sum + second;
}

double with_barrier() {
    const int count = threads == 0 ? 1 : threads;
    std::vector<double> now(x, x + POINTS), then(POINTS);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, nullptr, count);
    auto work = [&](int number) {
        for (int step = 0; step < 5; step++) {
            for (int i = number; i < POINTS; i += count) then[i] = (now[i] + now[(i + 1) % POINTS] * now[i]) / 2;
            pthread_barrier_wait(&barrier);
            for (int i = number; i < POINTS; i += count) now[i] = then[i];
            pthread_barrier_wait(&barrier);
        }
    };
    std::vector<std::thread> workers;
    for (int number = 1; number < count; number++) workers.emplace_back(work, number);
    work(0);
    for (auto &worker : workers) worker.join();
    pthread_barrier_destroy(&barrier);
    double sum = 0;
    for (int i = 0; i < POINTS; i++) sum += now[i] * (i % 7);
    return sum;
}

thread_local double own = 0;

double with_thread_local() {
    std::mutex mutex;
    double sum = 0;
    auto part = [&](int from, int step) {
        own = 0;
        for (int i = from; i < POINTS; i += step) own += std::sqrt(x[i]);
        std::lock_guard<std::mutex> guard(mutex);
        sum += own;
    };
    if (threads == 0) {
        part(0, 1);
    } else {
        std::vector<std::thread> workers;
        for (int number = 0; number < threads; number++) workers.emplace_back(part, number, threads);
        for (auto &worker : workers) worker.join();
    }
    return sum * sum;
}

double with_queue() {
    // A chain: each thread waits for its turn and goes on with what the one before has left.
    std::mutex mutex;
    std::condition_variable changed;
    int turn = 0;
    double value = 1;
    auto link = [&](int number) {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return turn == number; });
        value = value * x[number] + std::sin(value);
        turn++;
        changed.notify_all();
    };
    constexpr int LINKS = 8;
    if (threads == 0) {
        for (int number = 0; number < LINKS; number++) link(number);
    } else {
        std::vector<std::thread> workers;
        for (int number = LINKS - 1; number >= 0; number--) workers.emplace_back(link, number);
        for (auto &worker : workers) worker.join();
    }
    return value;
}

double with_futures() {
    const auto policy = threads == 0 ? std::launch::deferred : std::launch::async;
    std::vector<std::future<double>> parts;
    for (int part = 0; part < 6; part++) {
        parts.push_back(std::async(policy, [part] { return std::accumulate(x + 8 * part, x + 8 * part + 8, 0.0); }));
    }
    double product = 1;
    for (auto &part : parts) product *= part.get() / 4;
    return product;
}

}  // namespace

int main(int count, char **arguments) {
    if (count > 1) threads = std::atoi(arguments[1]);
    for (int i = 0; i < POINTS; i++) {
        x[i] = 0.25 + i / 64.0;
        DG_INPUTF(x[i]);
    }
    output(with_mutex());
    output(with_atomics());
    output(with_negations());
    output(with_overtaking());
    output(with_slots());
    output(with_barrier());
    output(with_thread_local());
    output(with_queue());
    output(with_futures());
    std::puts("done");
    return 0;
}
