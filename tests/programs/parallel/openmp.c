// Every construct of OpenMP through which real numbers go from thread to thread. Without -fopenmp it is the serial program.
//
// Argument: number of threads. Inputs: POINTS numbers. Outputs: one for each construct.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <derivgrind.h>

enum { POINTS = 48 };

static double x[POINTS], y[POINTS], z[POINTS];

static void output(double value) { DG_OUTPUTF(value); }

static double parallel_for(void) {
    double sum = 0;
#pragma omp parallel for schedule(dynamic, 3)
    for (int i = 0; i < POINTS; i++) y[i] = x[i] * x[i] + sin(x[i]);
    for (int i = 0; i < POINTS; i++) sum += (i + 1) * y[i];
    return sum;
}

static double reductions(void) {
    double sum = 0, product = 1, largest = -1;
#pragma omp parallel for reduction(+ : sum) reduction(* : product) reduction(max : largest)
    for (int i = 0; i < POINTS; i++) {
        sum += x[i] * x[i];
        product *= 1 + x[i] / POINTS;
        if (x[i] > largest) largest = x[i];
    }
    return sum * product + 3 * largest;
}

static double critical(void) {
    double sum = 0, weighted = 0;
#pragma omp parallel for
    for (int i = 0; i < POINTS; i++) {
        double term = exp(-x[i]);
#pragma omp critical
        {
            sum += term;
            weighted += i * term * x[i];
        }
    }
    return sum + weighted;
}

static double atomic_updates(void) {
    double sum = 0, difference = 1, zero = 0;
    float single = 0;
#pragma omp parallel for schedule(static, 1)
    for (int i = 0; i < POINTS; i++) {
        double square = x[i] * x[i];
#pragma omp atomic
        sum += square;
#pragma omp atomic
        difference -= 2 * x[i];
        // Nothing is added, but something that depends on an input.
        double nothing = x[i] - (0.25 + i / 64.0);
#pragma omp atomic
        zero += nothing;
        float term = (float)x[i];
#pragma omp atomic
        single += term;
    }
    return sum + difference + 5 * zero + single;
}

static double atomic_others(void) {
    double before[POINTS], shared = 0, sum = 0, product = 1;
    int next = 0;
#pragma omp parallel for schedule(static, 1)
    for (int i = 0; i < POINTS; i++) {
        int place;
#pragma omp atomic capture
        place = next++;
        before[place] = x[i];
#pragma omp atomic
        product *= 1 + x[i] * x[i] / POINTS;
    }
    // Captured values are in any order: their sum of squares is not.
    for (int i = 0; i < POINTS; i++) sum += before[i] * before[i];
#pragma omp parallel sections
    {
#pragma omp section
        {
            double written = x[3] * x[4];
#pragma omp atomic write
            shared = written;
        }
#pragma omp section
        {
            double read = 0;
            while (read == 0) {
#pragma omp atomic read
                read = shared;
#ifndef _OPENMP
                break;
#else
                if (omp_get_num_threads() == 1) break;
#endif
            }
            y[0] = read;
        }
    }
    return sum + product + shared * 7 + y[0];
}

static double sections(void) {
    double a = 0, b = 0, c = 0;
#pragma omp parallel sections
    {
#pragma omp section
        for (int i = 0; i < POINTS; i += 3) a += x[i] * x[i + 1];
#pragma omp section
        for (int i = 1; i < POINTS; i += 3) b += sqrt(x[i]);
#pragma omp section
        for (int i = 2; i < POINTS; i += 3) c += 1 / (1 + x[i]);
    }
    return a * b + c;
}

static double tree(int from, int to) {
    if (to - from == 1) return x[from] * x[from] * x[from];
    double left, right;
    int middle = (from + to) / 2;
#pragma omp task shared(left)
    left = tree(from, middle);
#pragma omp task shared(right)
    right = tree(middle, to);
#pragma omp taskwait
    return left + right + left * right / 100;
}

static double tasks(void) {
    double result = 0, first = 0, second = 0;
#pragma omp parallel
#pragma omp single
    {
        result = tree(0, 16);
#pragma omp task depend(out : first) shared(first)
        first = x[1] * x[2];
#pragma omp task depend(in : first) depend(out : second) shared(first, second)
        second = first * x[3];
#pragma omp taskwait
    }
    return result + second;
}

static double simd(void) {
    double sum = 0;
#pragma omp parallel for simd reduction(+ : sum)
    for (int i = 0; i < POINTS; i++) {
        z[i] = x[i] / (1 + x[i] * x[i]);
        sum += z[i] * z[i];
    }
    return sum;
}

static double phases(void) {
    // Jacobi's iteration: what neighbours have written is read behind a barrier.
    for (int i = 0; i < POINTS; i++) y[i] = x[i];
#pragma omp parallel
    for (int step = 0; step < 6; step++) {
#pragma omp for
        for (int i = 0; i < POINTS; i++) z[i] = (y[(i + POINTS - 1) % POINTS] + y[i] * y[i] + y[(i + 1) % POINTS]) / 3;
#pragma omp for nowait
        for (int i = 0; i < POINTS; i++) y[i] = z[i];
#pragma omp barrier
    }
    double sum = 0;
    for (int i = 0; i < POINTS; i++) sum += y[i] * (i % 5);
    return sum;
}

static double own[1];
#pragma omp threadprivate(own)

static double privates(void) {
    double last = 0, scale = x[5], sum = 0, ordered = 1;
#pragma omp parallel firstprivate(scale) reduction(+ : sum)
    {
        own[0] = 0;
#pragma omp for lastprivate(last)
        for (int i = 0; i < POINTS; i++) {
            own[0] += scale * x[i];
            last = x[i] * scale;
        }
        sum += own[0];
    }
#pragma omp parallel for ordered schedule(static, 1)
    for (int i = 0; i < 12; i++) {
        double factor = cos(x[i] / 4);
#pragma omp ordered
        ordered = ordered * factor + x[i];
    }
    return last + sum + ordered;
}

static double locks(void) {
    double sum = 0;
#ifdef _OPENMP
    omp_lock_t lock;
    omp_init_lock(&lock);
#endif
#pragma omp parallel for schedule(guided)
    for (int i = 0; i < POINTS; i++) {
        double term = log(1 + x[i]);
#ifdef _OPENMP
        omp_set_lock(&lock);
#endif
        sum += term * term;
#ifdef _OPENMP
        omp_unset_lock(&lock);
#endif
    }
    return sum;
}

int main(int count, char **arguments) {
#ifdef _OPENMP
    omp_set_dynamic(0);
    omp_set_num_threads(count > 1 ? atoi(arguments[1]) : 4);
#else
    (void)count, (void)arguments;
#endif
    for (int i = 0; i < POINTS; i++) {
        x[i] = 0.25 + i / 64.0;
        DG_INPUTF(x[i]);
    }
    output(parallel_for());
    output(reductions());
    output(critical());
    output(atomic_updates());
    output(atomic_others());
    output(sections());
    output(tasks());
    output(simd());
    output(phases());
    output(privates());
    output(locks());
    puts("done");
    return 0;
}
