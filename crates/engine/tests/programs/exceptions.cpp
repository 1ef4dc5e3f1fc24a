// Exceptions through several frames and threads.
#include <cstdio>
#include <future>
#include <stdexcept>
#include <vector>

struct Guard {
    int *count;
    ~Guard() { ++*count; }
};

static int descend(int depth, int *count) {
    Guard guard{count};
    if (depth == 0) throw std::runtime_error("bottom");
    return descend(depth - 1, count) + 1;
}

int main() {
    int unwound = 0, caught = 0;
    for (int i = 0; i < 200; i++) {
        try {
            descend(i % 10, &unwound);
        } catch (const std::exception &) {
            caught++;
        }
    }
    std::printf("caught %d, unwound %d\n", caught, unwound);
    std::vector<std::future<double>> parts;
    for (int i = 0; i < 30; i++)
        parts.push_back(std::async(std::launch::async, [i] {
            double sum = 0;
            for (int k = 1; k < 5000; k++) sum += i / double(k);
            if (i == 29) throw 5;
            return sum;
        }));
    double sum = 0;
    for (auto &part : parts) {
        try {
            sum += part.get();
        } catch (int value) {
            std::printf("from a thread: %d\n", value);
        }
    }
    std::printf("%.17g\n", sum);
    throw 1;
}
