// Bindings of Parquet: a mapped file and the bounds of a column's chunks in, the bounds of its values out.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "common/bindings.hpp"
#include "storage/parquet.hpp"

namespace {

// `strings`: bounds of each value; else of each page's values, which are `each` bytes wide.
nb::tuple column(In<uint8_t> file, In<int64_t> offsets, In<int64_t> sizes, int levels, bool strings, int64_t each,
                 int threads) {
    kernels::Buffer<int64_t> starts, ends;
    try {
        nb::gil_scoped_release released;
        std::vector<kernels::Page> pages;
        const uint8_t* data = file.data();
        const int64_t file_size = int64_t(file.size());
        for (size_t i = 0; i < offsets.size(); ++i) {
            const int64_t at = offsets.data()[i], size = sizes.data()[i];
            if (at < 0 || size < 0 || at > file_size || size > file_size - at)
                throw kernels::Corrupt("a column ends behind its file");
            kernels::find_pages({data + at, data + at + size}, pages);
        }
        kernels::check_pages(pages, threads);
        const auto add = [&](const uint8_t* begin, const uint8_t* end) {
            *starts.grow(1) = begin - data, *ends.grow(1) = end - data;
        };
        for (const kernels::Page& page : pages) {
            if (strings) {
                kernels::for_strings(page, levels, add);
                continue;
            }
            const kernels::Bytes values = kernels::values_of(page, levels);
            if (values.size() != page.values * each) throw kernels::Corrupt("a page has not as many values as it says");
            add(values.begin, values.end);
        }
    } catch (const kernels::Corrupt& corrupt) {
        throw nb::value_error(corrupt.what());
    }
    return nb::make_tuple(to_numpy(starts), to_numpy(ends));
}

}  // namespace

void define_parquet(nb::module_& m) {
    m.def("parquet_column", &column, "file"_a, "offsets"_a, "sizes"_a, "levels"_a, "strings"_a,
          "each"_a, "threads"_a);
    m.def("crc32", [](In<uint8_t> data) { return kernels::crc32(data.data(), int64_t(data.size())); });
}
