#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <vector>

// equipoise._core: the planner's nouns and functions under the same names, and nothing else. What a Python user sees is
// made of these in python/equipoise. Functions that plan release the interpreter's lock. An InputError is a ValueError.

namespace equipoise::bindings {

namespace nb = nanobind;
using Unlocked = nb::call_guard<nb::gil_scoped_release>;
using IntArray = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// A NumPy array of words, [rows, columns] or [words] with columns == 0; it owns a copy.
nb::object to_numpy(std::vector<int64_t> words, std::size_t columns = 0);

void init_inputs(nb::module_& module);
void init_steps(nb::module_& module);
void init_buckets(nb::module_& module);
void init_compare(nb::module_& module);
void init_tuning(nb::module_& module);
void init_advise(nb::module_& module);
void init_files(nb::module_& module);

}  // namespace equipoise::bindings
