"""Draws who computes what in one plan: for each sequence and each group of heads the square of query rows x keys, in
which every document is a triangle, coloured by the rank that computes it. Work that left its owner is in another
colour than the rest of its square; areas are in proportion to work.
"""

from collections.abc import Sequence
from html import escape

from equipoise.charts import INK, RANK_COLOURS, svg, text

SIDE, GAP, TOP = 262, 22, 30
COLUMNS = 4
STRIP = 12
MANY_SEGMENTS = 400  # outlines of more would be all one sees


def draw_plan(drawing: dict) -> str:
    """`drawing` has sequences (by rank, segments [document, begin, length]), tiles [[mask, replica, segment, q_begin,
    q_length, head_begin, heads, member, round]], query_heads and kv_heads."""
    group = drawing["query_heads"] // drawing["kv_heads"]
    window = max(sum(length for _, _, length in segments) for segments in drawing["sequences"])
    squares = [
        (replica, kv_head) for replica in range(len(drawing["sequences"])) for kv_head in range(drawing["kv_heads"])
    ]
    parts = []
    for index, (replica, kv_head) in enumerate(squares):
        x, y = index % COLUMNS * (SIDE + GAP), index // COLUMNS * (SIDE + STRIP + TOP + GAP)
        heads = range(kv_head * group, (kv_head + 1) * group)
        title = f"sequence of rank {replica}, query heads {heads.start} to {heads.stop - 1}"
        tiles = [tile for tile in drawing["tiles"] if tile[1] == replica and tile[5] < heads.stop]
        tiles = [tile for tile in tiles if tile[5] + tile[6] > heads.start]
        square = draw_square(drawing["sequences"][replica], tiles, replica, (heads, SIDE / window))
        parts.append(text(x, y + 18, title) + f'<g transform="translate({x} {y + TOP})">{square}</g>')
    rows = -(-len(squares) // COLUMNS)
    return svg(min(COLUMNS, len(squares)) * (SIDE + GAP) - GAP, rows * (SIDE + STRIP + TOP + GAP) - GAP, parts)


def draw_square(segments: Sequence, tiles: Sequence, home: int, view: tuple[range, float]) -> str:
    """A strip of the documents, and below it their triangles."""
    heads, scale = view
    parts = [f'<rect y="{STRIP + 2}" width="{SIDE}" height="{SIDE}" fill="#fafbfc" stroke="#d6dae0"/>']
    strip, shapes, begin = [], [], 0
    for index, (document, first, length) in enumerate(segments):
        name = f"document {document}, tokens {first} to {first + length - 1}"
        fill = "#aeb6c1" if index % 2 else "#cfd5dc"
        strip.append(
            f'<rect x="{begin * scale:.2f}" width="{length * scale:.2f}" height="{STRIP - 2}" fill="{fill}">'
            f"<title>{escape(name)}</title></rect>"
        )
        shapes.append(trapezoid((begin, 0, length, scale), home, 1.0, f"{name}: rank {home}"))
        for _, _, segment, q_begin, q_length, head_begin, count, member, _ in tiles:
            if segment == index:
                shown = range(max(heads.start, head_begin), min(heads.stop, head_begin + count))
                label = f"{name}: query rows {q_begin} to {q_begin + q_length - 1}, {len(shown)} heads: rank {member}"
                shapes.append(trapezoid((begin, q_begin, q_length, scale), member, len(shown) / len(heads), label))
        begin += length
    outline = "0.6" if len(segments) < MANY_SEGMENTS else "0"
    body = f'<g transform="translate(0 {STRIP + 2})" stroke="white" stroke-width="{outline}">{"".join(shapes)}</g>'
    return "".join([*parts, *strip, body])


def trapezoid(place: tuple[int, int, int, float], member: int, share: float, label: str) -> str:
    """Rows [q_begin, q_begin + q_length) of a causal segment that begins at `begin`: each row sees one key more."""
    begin, q_begin, q_length, scale = place
    left, top, bottom = begin * scale, (begin + q_begin) * scale, (begin + q_begin + q_length) * scale
    points = f"{left:.2f},{top:.2f} {top:.2f},{top:.2f} {bottom:.2f},{bottom:.2f} {left:.2f},{bottom:.2f}"
    colour = RANK_COLOURS[member % len(RANK_COLOURS)]
    title = f"<title>{escape(label)}</title>"
    return f'<polygon points="{points}" fill="{colour}" fill-opacity="{share:.2f}">{title}</polygon>'


def legend(ranks: int) -> str:
    marks = "".join(
        f'<span class="mark"><i style="background:{RANK_COLOURS[rank % len(RANK_COLOURS)]}"></i>rank {rank}</span>'
        for rank in range(ranks)
    )
    return f'<p class="legend" style="color:{INK}">{marks}</p>'
