import asyncio
async def a():
    await asyncio.sleep(0)
    raise ConnectionError("lost")
async def main():
    await asyncio.gather(a(), a())
asyncio.run(main())
