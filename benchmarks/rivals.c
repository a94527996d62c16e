/* Hand-written rivals of the compiled loops: the same work, the same random numbers, the same table layout.
 *
 * Compiled by benchmarks/c_rivals.py with -O3 -march=native -ffp-contract=off; the last option forbids fused
 * multiply-adds, so that the values agree with ours to the last bit.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- the acyclic backward pass (Prop. 1), d reward components */

void backward_pass(double *values, const int64_t *rows, double *restrict delta, const double *restrict lambda,
                   int64_t length, int64_t d, double discount, double alpha) {
    if (d == 1) {
        double u = 0.0, weight = 0.0;
        for (int64_t t = length - 1; t >= 0; t--) {
            u = delta[t] + weight * u;
            weight = discount * lambda[t];
            delta[t] = u;
            values[rows[t]] += alpha * u;
        }
        return;
    }
    for (int64_t t = length - 1; t >= 0; t--) {
        double *value = values + rows[t] * d;
        double *u = delta + t * d;
        if (t + 1 < length)
            for (int64_t i = 0; i < d; i++) u[i] += discount * lambda[(t + 1) * d + i] * u[d + i];
        for (int64_t i = 0; i < d; i++) value[i] += alpha * u[i];
    }
}

/* ---- NumPy's PCG64: the next number of Generator.random() */

static inline double uniform(uint64_t *words) {
    unsigned __int128 state = ((unsigned __int128)words[0] << 64) | words[1];
    unsigned __int128 more = ((unsigned __int128)words[2] << 64) | words[3];
    unsigned __int128 factor = ((unsigned __int128)0x2360ED051FC65DA4u << 64) | 0x4385DF649FCCF645u;
    state = state * factor + more;
    uint64_t high = (uint64_t)(state >> 64), low = (uint64_t)state, x = high ^ low, turn = high >> 58;
    words[0] = high;
    words[1] = low;
    return (double)(((x >> turn) | (x << ((64 - turn) & 63))) >> 11) * (1.0 / 9007199254740992.0);
}

/* ---- ε-greedy choice among the first `legal` actions; takes one uniform number */

static int64_t choose(const double *q, int64_t legal, double epsilon, double u, double *policy) {
    double best = q[0];
    for (int64_t a = 1; a < legal; a++)
        if (q[a] > best) best = q[a];
    int64_t ties = 0;
    for (int64_t a = 0; a < legal; a++) ties += q[a] == best;
    double base = epsilon / legal, greedy = base + (1.0 - epsilon) / ties, cumulative = 0.0;
    int64_t chosen = legal - 1, found = 0;
    for (int64_t a = 0; a < legal; a++) {
        policy[a] = q[a] == best ? greedy : base;
        cumulative += policy[a];
        if (!found && u < cumulative) {
            chosen = a;
            found = 1;
        }
    }
    return chosen;
}

/* ---- Accumulated-Charge, SARSA(λ) with a constant λ: roll-out, TD errors, backward pass. Returns the misses. */

int64_t accumulated_charge(double *values, int64_t horizon, double success, double bonus, double slope,
                           const double *cdf, const int64_t *guide, const uint8_t *charging,
                           uint64_t *env, uint64_t *chooser, int64_t episodes,
                           double epsilon, double lambda, double discount, double alpha, int64_t *rows,
                           double *delta) {
    int64_t misses = 0, times = horizon + 1;
    double policy[2];
    for (int64_t episode = 0; episode < episodes; episode++) {
        int64_t first = 0, charge = 0, row = choose(values, 2, epsilon, uniform(chooser), policy);
        misses += row != 0;
        for (int64_t t = 0; t < horizon; t++) {
            if (t == 0) {
                first = 1 - row;
            } else if (charging[t]) {
                double u = uniform(env);
                int64_t gain = guide[(int64_t)(u * 256)];
                while (u >= cdf[gain]) gain++;
                charge += gain;
            }
            rows[t] = row;
            if (t + 1 == horizon) {
                double surplus = slope * (charge - success * horizon);
                delta[t] = (first ? bonus + surplus : -surplus) - values[row];
            } else {
                int64_t next = 2 * ((first * times + charge) * times + t + 1);
                delta[t] = 0.0 + discount * values[next] - values[row];
                row = next;
            }
        }
        double u = 0.0;
        for (int64_t t = horizon - 1; t >= 0; t--) {
            u = delta[t] + discount * lambda * u;
            values[rows[t]] += alpha * u;
        }
    }
    return misses;
}

/* ---- counted pairs in an open hash table; a slot holds the pair and its number */

typedef struct {
    int64_t key; /* pair + 1, or 0 where free */
    int64_t number;
} Slot;

static Slot *slot(Slot *table, int64_t mask, int64_t origin, int64_t target) {
    int64_t key = ((origin << 24) | target) + 1;
    uint64_t hash = (uint64_t)key * 0x9E3779B97F4A7C15u;
    for (int64_t k = (int64_t)(hash >> 40) & mask;; k = (k + 1) & mask) {
        if (table[k].key == key) return table + k;
        if (table[k].key == 0) {
            table[k].key = key;
            return table + k;
        }
    }
}

/* ---- Chain-and-Split, Chunked SARSA with counts (Alg. 2) */

int64_t chain_and_split(double *values, int64_t horizon, int64_t actions, int64_t width, double chain_reward,
                        const double *leaf_rewards, uint64_t *env, uint64_t *chooser,
                        int64_t episodes, double epsilon, double discount, double alpha, Slot *table, int64_t mask,
                        int64_t *totals, int64_t *rows, double *delta, double *lambda) {
    int64_t misses = 0;
    double policy[64];
    for (int64_t episode = 0; episode < episodes; episode++) {
        int64_t row = choose(values, actions, epsilon, uniform(chooser), policy), length = 0, ended = 0;
        misses += row != 0;
        for (int64_t s = 0; !ended;) {
            double reward = 0.0;
            int64_t next;
            if (s == 0) {
                next = row == 0 ? 1 : horizon + 1;
            } else if (s < horizon) {
                next = s + 1;
                ended = next == horizon;
                if (ended) reward = chain_reward;
            } else {
                int64_t leaf = (int64_t)(uniform(env) * width);
                next = horizon + 2 + leaf;
                reward = leaf_rewards[leaf];
                ended = 1;
            }
            double ahead = ended ? 0.0 : values[next * actions];
            int64_t number = ++slot(table, mask, row, next)->number;
            lambda[length] = (double)number / (double)++totals[row];
            delta[length] = reward + discount * ahead - values[row];
            rows[length++] = row;
            s = next;
            row = next * actions;
        }
        backward_pass(values, rows, delta, lambda, length, 1, discount, alpha);
    }
    return misses;
}

/* ---- Key-to-Door, Chunked Expected-SARSA with a λ per component and counts (Alg. 4) */

static int64_t act(const double *q, int64_t d, double epsilon, double u, double *policy) {
    double total[2] = {0.0, 0.0};
    for (int64_t a = 0; a < 2; a++)
        for (int64_t i = 0; i < d; i++) total[a] += q[a * d + i];
    return choose(total, 2, epsilon, u, policy);
}

int64_t key_to_door(double *values, int64_t horizon, int64_t coins, const double *weights,
                    uint64_t *env, uint64_t *chooser, int64_t episodes, double epsilon,
                    double discount, double alpha, Slot *table, int64_t mask, int64_t *totals, int64_t *rows,
                    double *delta, double *lambda) {
    int64_t misses = 0, d = coins + 4, times = horizon + 1;
    int64_t x[40];
    double r[40], policy[2], next_policy[2];
    for (int64_t episode = 0; episode < episodes; episode++) {
        memset(x, 0, sizeof x);
        int64_t s = 0, a = act(values, d, epsilon, uniform(chooser), policy);
        for (int64_t t = 0; t < horizon; t++) {
            int64_t row = 2 * s + a, ended = t + 1 == horizon, a2 = 0;
            if (t == 0 && a == 0) x[0] = 1;
            x[1] = t + 1 == horizon - 1;
            int64_t bits = t + 1 < horizon - 1 ? (int64_t)(uniform(env) * (double)(1 << coins)) : 0;
            for (int64_t i = 0; i < coins; i++) x[2 + i] = (bits >> i) & 1;
            x[coins + 2] = ended && a == 1 && x[0] == 1;
            x[coins + 3] = t + 1;
            int64_t s2 = 0;
            for (int64_t i = 0; i < coins + 3; i++) s2 = 2 * s2 + x[i];
            s2 = s2 * times + t + 1;
            for (int64_t i = 0; i < d; i++) r[i] = x[i] * weights[i];
            if (!ended) a2 = act(values + 2 * s2 * d, d, epsilon, uniform(chooser), next_policy);
            totals[row]++;
            for (int64_t i = 0; i < d; i++) {
                slot(table, mask, row * d + i, x[i])->number++;
                double chance = 0.0;
                for (int64_t b = 0; b < 2; b++)
                    if (policy[b] > 0.0 && totals[2 * s + b] > 0)
                        chance += policy[b] * ((double)slot(table, mask, (2 * s + b) * d + i, x[i])->number /
                                               (double)totals[2 * s + b]);
                lambda[t * d + i] = chance;
                double ahead = 0.0;
                if (!ended)
                    for (int64_t b = 0; b < 2; b++)
                        if (next_policy[b] > 0.0) ahead += next_policy[b] * values[(2 * s2 + b) * d + i];
                delta[t * d + i] = r[i] + discount * ahead - values[row * d + i];
            }
            rows[t] = row;
            s = s2;
            a = a2;
            policy[0] = next_policy[0];
            policy[1] = next_policy[1];
        }
        misses += x[coins + 2] == 0;
        backward_pass(values, rows, delta, lambda, horizon, d, discount, alpha);
    }
    return misses;
}
