// Two-dimensional Burgers' equation, the common benchmark of taping tools.
//
//     u_t + u u_x + v u_y = 0,    v_t + u v_x + v v_y = 0
//
// on the unit square, by finite differences: explicit Euler steps, first-order upwind. Both components are positive, so that
// the upwind neighbours are the western and the southern one; the boundary keeps its initial values. All components of the
// initial state are inputs, the norm of the final state is the output. The work is done by four statements for each cell.
//
//     burgers N T [SEED SIZE]
//
// N grid points in each direction, T steps. SEED and SIZE add SIZE times a direction drawn from SEED (SplitMix64, numbers in
// [-1, 1), first all of u, then all of v) to the initial state, for difference quotients. Prints the norm. If the environment
// variable BURGERS_CLOCK names a file, the solver's wall-clock seconds are written there.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include <derivgrind.h>

namespace {

using Field = std::vector<double>;

class SplitMix64 {
public:
    explicit SplitMix64(std::uint64_t seed) : state(seed) {}

    double number() {
        state += 0x9e3779b97f4a7c15;
        std::uint64_t mixed = state;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
        mixed ^= mixed >> 31;
        return std::ldexp(static_cast<double>(mixed >> 11), -52) - 1.0;
    }

private:
    std::uint64_t state;
};

// A bump on a uniform flow. Values stay within (0, 1], which the time step relies on.
void initial_state(Field &u, Field &v, std::size_t n) {
    for (std::size_t row = 0; row < n; row++) {
        for (std::size_t column = 0; column < n; column++) {
            const double x = static_cast<double>(column) / static_cast<double>(n - 1);
            const double y = static_cast<double>(row) / static_cast<double>(n - 1);
            const double bump = 16.0 * x * (1.0 - x) * y * (1.0 - y);
            u[row * n + column] = 0.25 + 0.5 * bump;
            v[row * n + column] = 0.5 - 0.25 * bump * bump;
        }
    }
}

// One step from (u, v) to (next_u, next_v); `ratio` is time step by grid spacing.
void step(const Field &u, const Field &v, Field &next_u, Field &next_v, std::size_t n, double ratio) {
    for (std::size_t row = 1; row + 1 < n; row++) {
        for (std::size_t column = 1; column + 1 < n; column++) {
            const std::size_t cell = row * n + column, west = cell - 1, south = cell - n;
            const double change_u = u[cell] * (u[cell] - u[west]) + v[cell] * (u[cell] - u[south]);
            const double change_v = u[cell] * (v[cell] - v[west]) + v[cell] * (v[cell] - v[south]);
            next_u[cell] = u[cell] - ratio * change_u;
            next_v[cell] = v[cell] - ratio * change_v;
        }
    }
}

double norm(const Field &u, const Field &v) {
    double sum = 0.0;
    for (std::size_t cell = 0; cell < u.size(); cell++) sum += u[cell] * u[cell] + v[cell] * v[cell];
    return std::sqrt(sum / static_cast<double>(u.size()));
}

} // namespace

int main(int argc, char **argv) {
    const long points = argc > 2 ? std::strtol(argv[1], nullptr, 10) : 0, steps = argc > 2 ? std::strtol(argv[2], nullptr, 10) : -1;
    if (points < 3 || points > 20000 || steps < 0) {
        std::fprintf(stderr, "usage: burgers N T [SEED SIZE]\n");
        return 2;
    }
    const std::size_t n = static_cast<std::size_t>(points);
    Field u(n * n), v(n * n);
    initial_state(u, v, n);
    if (argc > 4) {
        SplitMix64 direction(std::strtoull(argv[3], nullptr, 10));
        const double size = std::strtod(argv[4], nullptr);
        for (double &value : u) value += size * direction.number();
        for (double &value : v) value += size * direction.number();
    }
    for (double &value : u) DG_INPUTF(value);
    for (double &value : v) DG_INPUTF(value);

    const auto start = std::chrono::steady_clock::now();
    // Courant number |u| + |v| times ratio: at most 0.5.
    const double ratio = 0.25;
    Field next_u(u), next_v(v);
    for (long count = 0; count < steps; count++) {
        step(u, v, next_u, next_v, n, ratio);
        std::swap(u, next_u);
        std::swap(v, next_v);
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;

    double result = norm(u, v);
    DG_OUTPUTF(result);
    std::printf("%.17g\n", result);
    if (const char *path = std::getenv("BURGERS_CLOCK")) {
        if (std::FILE *file = std::fopen(path, "w")) {
            std::fprintf(file, "%.9f\n", elapsed.count());
            std::fclose(file);
        }
    }
    return 0;
}
