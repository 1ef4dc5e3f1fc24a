// Exceptions through several frames, with destructors, rethrow, nested exceptions and one out of a library callback.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

struct Tracer {
    std::string name;
    explicit Tracer(std::string n) : name(std::move(n)) { std::printf("+%s\n", name.c_str()); }
    ~Tracer() { std::printf("-%s (%d uncaught)\n", name.c_str(), std::uncaught_exceptions()); }
};

static int descend(int depth) {
    Tracer tracer("depth " + std::to_string(depth));
    if (depth == 0) throw std::runtime_error("bottom");
    return descend(depth - 1) + 1;
}

static void nested() {
    try {
        descend(2);
    } catch (...) {
        std::throw_with_nested(std::logic_error("outer"));
    }
}

int main() {
    try {
        nested();
    } catch (const std::logic_error &error) {
        std::printf("%s\n", error.what());
        try {
            std::rethrow_if_nested(error);
        } catch (const std::exception &inner) {
            std::printf("  because of %s\n", inner.what());
        }
    }
    std::vector<int> numbers{5, 3, 9, 1};
    try {
        std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return a == 9 || b == 9 ? throw 9 : a < b; });
    } catch (int number) {
        std::printf("thrown out of sort: %d\n", number);
    }
    int caught = 0;
    for (int i = 0; i < 1000; i++) {
        try {
            if (i % 3 == 0) throw i;
            if (i % 3 == 1) throw std::to_string(i);
        } catch (int) {
            caught++;
        } catch (const std::string &text) {
            caught += static_cast<int>(text.size());
        }
    }
    std::printf("%d\n", caught);
    try {
        (void)std::vector<int>().at(7);
    } catch (const std::out_of_range &) {
        std::puts("out of range");
    }
    throw std::runtime_error("nobody catches this");
}
