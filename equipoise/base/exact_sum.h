#pragma once

#include <cstdint>

namespace equipoise {

// Sums of floats whose result depends on which numbers are added, and on nothing else: not on their order, nor on who
// added which of them first.
//
// Bits are cut into bins at fixed places: bit q weighs 2^(q - 149), bin b holds the bits [32 b, 32 b + 32). A float has
// 24 bits that lie next to each other, so it is a slice of at most 32 bits in its top bin and one in the bin below, cut
// from its magnitude and given its sign. The state of a sum is (B, high, low): B is the highest top bin of all numbers
// so far, high and low are the sums of all their slices in bins B and B - 1; slices further down are left out.
//
// Why order does not matter: B is a maximum, and for a given B the two sums are sums of integers over all numbers. When
// B rises to B + 1, low becomes the sum of slices in bin B, which is the old high, and nothing had a slice in B + 1;
// when it rises further, no earlier number has a slice in either bin. Adding a number and merging two states both keep
// this meaning of the state, so every order and every tree of additions ends in the same state, bit for bit.
//
// Error: a number loses less than the unit of bin B - 1, which is at most 2^-32 of the largest number; so n numbers
// lose less than n 2^-32 of it. At most 2^31 numbers can be added: their slices are below 2^32 each. Infinities and NaN
// are counted in a bin above all others: the sum is infinite if only infinities of one sign were added, else NaN, as it
// is in any order of floating point additions.
//
// A block of n states is exact_sum_words(n) words: n times high, n times low, then a byte for each B. All zero: nothing
// added; zeros add nothing.
// Source: reproducible summation of Demmel and Nguyen, with integers.

/// Words of a block of n states.
constexpr int64_t exact_sum_words(int64_t n) { return 2 * n + (n + 7) / 8; }

/// States in a block of so many words: 17 words hold eight.
constexpr int64_t exact_sums_in(int64_t words) { return words * 8 / 17; }

/// Adds values[i] to the i-th sum of a block of n.
void add_to_sums(int64_t* words, const float* values, int64_t n);

/// Adds the sums of another block of n.
void merge_sums(int64_t* words, const int64_t* other, int64_t n);

/// The sums, each rounded to a float.
void round_sums(const int64_t* words, float* values, int64_t n);

}  // namespace equipoise
