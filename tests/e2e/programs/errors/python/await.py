import asyncio
async def get():
    return 1
async def main():
    x = get() + 1
    print(x)
asyncio.run(main())
