SELECT json_extract('{bad', '$.a');
