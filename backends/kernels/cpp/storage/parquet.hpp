// Pages of a Parquet column with PLAIN encoding, read in place (headers: PageHeader in Thrift's compact protocol).
#pragma once
#include <optional>
#include <vector>

#include "storage/crc.hpp"
#include "storage/wire.hpp"

namespace kernels {

struct PageHeader {
    int64_t type = -1, raw = -1, size = -1, values = -1, encoding = -1;
    std::optional<uint32_t> crc;
};

struct Page {
    Bytes body;  // levels and values
    int64_t values;
    std::optional<uint32_t> crc;
};

// At `depth` 1 is the header of the data, at 2 that of their statistics, which are empty.
inline void read_header(Bytes& bytes, PageHeader& header, int depth = 0) {
    constexpr int kNumber = 5, kStruct = 12, kInside = 5;
    for (int64_t field = 0;;) {
        if (bytes.begin == bytes.end) throw Corrupt("a page ends inside its header");
        const int head = *bytes.begin++;
        if (head == 0) return;
        field = head >> 4 ? field + (head >> 4) : unzigzag(read_number(bytes));
        if ((head & 15) == kStruct && depth < 2 && field == kInside) {
            read_header(bytes, header, depth + 1);
            continue;
        }
        if ((head & 15) != kNumber) throw Corrupt("a page is not of plain values");
        const int64_t value = unzigzag(read_number(bytes));
        if (depth == 1 && field <= 2) (field == 1 ? header.values : header.encoding) = value;
        if (depth == 0 && field <= 3) (field == 1 ? header.type : field == 2 ? header.raw : header.size) = value;
        if (depth == 0 && field == 4) header.crc = uint32_t(value);
    }
}

// Find the pages of a column chunk; they must be neither compressed nor encoded.
inline void find_pages(Bytes chunk, std::vector<Page>& pages) {
    while (chunk.begin < chunk.end) {
        PageHeader header;
        read_header(chunk, header);
        if (header.type != 0 || header.encoding != 0 || header.raw != header.size || header.values < 0)
            throw Corrupt("a page is not of plain values");
        if (header.size < 0 || header.size > chunk.size()) throw Corrupt("a page ends behind its column");
        pages.push_back({{chunk.begin, chunk.begin + header.size}, header.values, header.crc});
        chunk.begin += header.size;
    }
}

inline void check_pages(const std::vector<Page>& pages, int threads) {
    Damage damage;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t i = 0; i < int64_t(pages.size()); ++i) {
        damage.guard(i, [&] {
            const Page& page = pages[i];
            if (page.crc && *page.crc != crc32(page.body.begin, page.body.size()))
                throw Corrupt("the checksum of page " + std::to_string(i) + " does not match");
        });
    }
    damage.raise();
}

inline int64_t read_length(Bytes& bytes) {
    uint32_t length;
    if (bytes.size() < 4) throw Corrupt("a page ends inside a length");
    std::memcpy(&length, bytes.begin, 4);
    bytes.begin += 4;
    if (int64_t(length) > bytes.size()) throw Corrupt("a value ends behind its page");
    return length;
}

// The values of a page, behind `levels` blocks of repetition and definition levels.
inline Bytes values_of(const Page& page, int levels) {
    Bytes values = page.body;
    for (; levels > 0; --levels) values.begin += read_length(values);
    return values;
}

// Call `use(begin, end)` for each byte string; there must be as many as the page says, so that none is null.
template <class Use>
void for_strings(const Page& page, int levels, Use use) {
    Bytes values = values_of(page, levels);
    for (int64_t i = 0; i < page.values; ++i) {
        const int64_t length = read_length(values);
        use(values.begin, values.begin + length);
        values.begin += length;
    }
    if (values.begin != values.end) throw Corrupt("a page holds more than its values");
}

}  // namespace kernels
