const fs = require('fs').promises;
(async () => {
  const data = await fs.readFile('/nope.txt', 'utf8');
  console.log(data);
})();
