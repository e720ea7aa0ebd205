"""A process that works by the clock instead of by messages: each round is a run in one session, with a notice at its end.

HUB_TOKEN=$(cat .session-hub/token) python -m hub.examples.scheduler --every 60
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil

import hub


async def report(ctx: hub.AgentContext) -> None:
    """One round: how full the disk is."""
    usage = shutil.disk_usage("/")
    used = round(100 * usage.used / usage.total)
    ctx.log.log("response", "Disk", f"{used} % of {usage.total / 1e9:.0f} GB are used.")
    ctx.state["used"] = used
    ctx.state.append("/history", used)


async def main(every: float) -> None:
    url = os.environ.get("HUB_URL", "http://127.0.0.1:8765")
    async with hub.connect(url, token=os.environ["HUB_TOKEN"]) as client:
        try:
            ctx = await client.create(id="disk-report", name="Disk report", type="task")
        except hub.Exists:
            ctx = await client.open("disk-report")
        while True:
            await ctx.run_task(report, ctx).result()
            hub.AgentContext.get_notification_manager().send_notification(
                "info", "Disk report is ready", context=ctx.id
            )
            await asyncio.sleep(every)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=float, default=60.0, help="seconds from the end of a round to the next")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(parser.parse_args().every))
