"""Writes the files of this folder with pyarrow and DuckDB: python3 make.py"""

import datetime as dt
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

N = 20


def column(f, typ):
    return pa.array([None if i % 7 == 3 else f(i) for i in range(N)], typ)


utc = dt.timezone.utc
epoch = dt.datetime(1970, 1, 1)
cols = {
    "i8": column(lambda i: i * 3 - 10, pa.int8()),
    "i16": column(lambda i: i * 3 - 10, pa.int16()),
    "i32": column(lambda i: i * 3 - 10, pa.int32()),
    "i64": column(lambda i: i * 3 - 10, pa.int64()),
    "u8": column(lambda i: i * 3, pa.uint8()),
    "u16": column(lambda i: i * 3, pa.uint16()),
    "u32": column(lambda i: i * 3 + 2**31, pa.uint32()),
    "u64": column(lambda i: i * 3 + 2**40, pa.uint64()),
    "f32": column(lambda i: i / 4, pa.float32()),
    "f64": column(lambda i: i / 4, pa.float64()),
    "b": column(lambda i: i % 2 == 0, pa.bool_()),
    "s": column(lambda i: f"text é {i}", pa.string()),
    "large": column(lambda i: f"text é {i}", pa.large_string()),
    "color": column(lambda i: ["red", "green", "blue"][i % 3], pa.string()).dictionary_encode(),
    "bin": column(lambda i: bytes([i, 255 - i]), pa.binary()),
    "fixed": column(lambda i: bytes([i, 0, 1, 2]), pa.binary(4)),
    "d32": column(lambda i: dt.date(1970, 1, 1) + dt.timedelta(days=100 * i), pa.date32()),
    "d64": column(lambda i: dt.date(1970, 1, 1) + dt.timedelta(days=100 * i), pa.date64()),
    "ts_s": column(lambda i: 10**9 + i, pa.timestamp("s")),
    "ts_ms": column(lambda i: 10**12 + i, pa.timestamp("ms")),
    "ts_us": column(lambda i: 10**15 + i, pa.timestamp("us")),
    "ts_ns": column(lambda i: (10**15 + i) * 1000, pa.timestamp("ns")),
    "ts_tz": column(lambda i: 10**15 + i, pa.timestamp("us", "Europe/Paris")),
    "dur_ms": column(lambda i: i * 1500, pa.duration("ms")),
    "dur_us": column(lambda i: i * 1500, pa.duration("us")),
    "t32": column(lambda i: i * 1500, pa.time32("ms")),
    "t64": column(lambda i: i * 1500, pa.time64("us")),
    "dec9": column(lambda i: Decimal(i) * Decimal("1.25") - 5, pa.decimal128(9, 2)),
    "dec18": column(lambda i: Decimal(i) * Decimal("1.25") - 5, pa.decimal128(18, 4)),
    "dec38": column(lambda i: Decimal(i) * Decimal("1.25") - 5, pa.decimal128(38, 10)),
    "dec76": column(lambda i: Decimal(i) * Decimal("1.25") - 5, pa.decimal256(76, 10)),
}
arrow_only = {"f16": column(lambda i: i / 4, pa.float16())}
table = pa.table(cols)
wide = pa.table({**cols, **arrow_only})

with pa.ipc.new_file("types.arrow", wide.schema) as w:
    w.write_table(wide, max_chunksize=7)
with pa.ipc.new_stream("types.arrows", wide.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as w:
    w.write_table(wide)
pq.write_table(table, "types.parquet", row_group_size=13)
pq.write_table(table, "types-v2.parquet", data_page_version="2.0", compression="zstd",
               use_dictionary=False, store_decimal_as_integer=True)
pq.write_table(
    table.select(["i64", "i32", "s", "fixed", "f64"]), "delta.parquet", use_dictionary=False, compression="gzip",
    column_encoding={"i64": "DELTA_BINARY_PACKED", "i32": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY",
                     "fixed": "BYTE_STREAM_SPLIT", "f64": "BYTE_STREAM_SPLIT"})
pq.write_table(table.select(["ts_us"]), "int96.parquet", use_deprecated_int96_timestamps=True)
pq.write_table(
    pa.table({"id": pa.array([1, 2]), "tags": pa.array([["a"], []]), "who": pa.array([{"name": "x"}, None])}),
    "nested.parquet")
finer = pa.table({"id": pa.array([1, 2, 3]), "t": pa.array([1000, 1001, None], pa.timestamp("ns")),
                  "big": pa.array([1, 2**63, None], pa.uint64()),
                  "dec": pa.array([Decimal("1.25"), Decimal("1.234"), None], pa.decimal128(20, 3))})
pq.write_table(finer, "misfits.parquet")
with pa.ipc.new_file("misfits.arrow", finer.schema) as w:
    w.write_table(finer)
duckdb.sql("""COPY (SELECT i AS id, i / 4.0::DOUBLE AS x, 'name' || (i % 5) AS name,
    TIMESTAMP '2001-01-01' + INTERVAL (i) SECOND AS t, (i * 1.25 - 5)::DECIMAL(10, 2) AS price, i % 2 = 0 AS even
    FROM range(2100) r(i)) TO 'duckdb.parquet' (FORMAT parquet, ROW_GROUP_SIZE 2048, COMPRESSION zstd)""")
