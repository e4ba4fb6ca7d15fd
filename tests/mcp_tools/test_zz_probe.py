from mcp_tools import code_search as cs, chunks, render, status
from mcp_tools.code_search import code_search
from mcp_tools.chunks import get_chunk
def test_p(library, shelf):
    for q in ["parse_retry_after","parseRetryAfter","ParseRetryAfter","where is parseRetryAfter defined?","corporate proxy","push to queue","handler event"]:
        print("=====",q); print(render.search_text(code_search(library,q)))
    for s in ["src/retry.py","src/retry.py#RetryPolicy","src/retry.py#RetryPolicy.wait","src/retry.py#wait","src/retry.py#L9","src/retry.py#L1-L300","src/client.ts#parseRetryAfter","docs/guide.md"]:
        print("=====",s); print(repr(render.chunk_text(get_chunk(library,s,repo="acme/http"))))
    print(render.status_text(status.index_status(library)))
    with library.snapshot() as c:
        for r in c.execute("select f.path,c.ord,c.level,c.parent,c.anchor,c.symbol,c.signature,c.start_line,c.end_line from file f join chunk c using(cut_id) where f.branch_id=1 order by 1,2"): print(r)
        for r in c.execute("select body from text limit 6"): print(r)
        for r in c.execute("select * from symbol limit 12"): print(r)
        for r in c.execute("select distinct f.path, c.anchor, body from text join chunk c using(text_id) join file f using(cut_id) where f.branch_id=1 and path ~ 'go|src/|py'"): print(r)
