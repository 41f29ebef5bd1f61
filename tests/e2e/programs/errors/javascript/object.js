throw { code: 3 };
